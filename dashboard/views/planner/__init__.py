"""Plan a run: what it will take, and on which machines."""
