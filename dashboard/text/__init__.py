"""How numbers, times and foreign text are written."""
