"""What pages ask the API for and keep between two drawings."""
