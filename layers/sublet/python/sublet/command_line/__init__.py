"""The command line's core: `sublet run`, which deployed services start, and what every command shares."""
