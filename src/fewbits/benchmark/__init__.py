"""Benchmark: suites of runs, their results, further experiments, and the report made from them."""
