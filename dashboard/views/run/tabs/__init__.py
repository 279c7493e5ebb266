"""The tabs of the run page, a file each. Their order is in tab_list.py."""
