"""HTTP service: a search engine behind a JSON API, with a web page to search it."""
