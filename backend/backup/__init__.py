"""Backups: everything that a platform knows and keeps, in one file that either database, and any artifact store, can be restored from."""
