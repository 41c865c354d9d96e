"""The service: an engine behind HTTP, and a page to search it."""
