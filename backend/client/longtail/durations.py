"""Times that client and server count in."""

DAY_SECONDS = 24 * 3600
