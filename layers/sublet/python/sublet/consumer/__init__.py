"""A consumer as an object, in your own program: `sublet.Consumer`."""
