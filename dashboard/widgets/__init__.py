"""Parts that several pages draw."""
