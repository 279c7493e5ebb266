"""Words, tabs and commands, explained."""
