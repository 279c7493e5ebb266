"""One run: its header and its tabs."""
