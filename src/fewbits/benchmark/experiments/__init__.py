"""Measurements other than precision, each saved as JSON and rendered as a page."""
