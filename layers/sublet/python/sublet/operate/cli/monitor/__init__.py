"""The commands that show how an application stands."""
