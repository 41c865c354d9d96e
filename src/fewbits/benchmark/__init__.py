"""Runs of methods on data sets, their results, and the tables made from them."""
