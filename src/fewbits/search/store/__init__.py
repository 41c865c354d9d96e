"""Documents, codes and filters of an engine in one SQLite file."""
