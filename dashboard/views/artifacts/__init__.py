"""Files that runs have left."""
