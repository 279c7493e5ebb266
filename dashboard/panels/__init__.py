"""Parts of the pages: each draws one thing from data that it is given."""
