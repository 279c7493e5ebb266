"""Workers and the queue."""
