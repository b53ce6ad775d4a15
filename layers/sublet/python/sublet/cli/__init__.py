"""The `sublet` command: a module for each of its commands, and `main`, which lists them."""
