"""The pages, a folder each: page.py and what only that page uses."""
