"""How the commands show what they found."""
