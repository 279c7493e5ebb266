"""Runs that never happened, to look at and to measure by: ``longtail demo-data``."""
