"""Pure decisions: from a snapshot, the time, chance and the settings to a plan that states its reasons."""
