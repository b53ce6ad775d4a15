"""The `sublet` command: one module per subcommand, and `main`, which lists them."""
