"""The list of all runs."""
