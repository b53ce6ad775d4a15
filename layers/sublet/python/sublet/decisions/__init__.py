"""What to do next: a snapshot, the time, chance and the settings in; a plan that says why out. Pure."""
