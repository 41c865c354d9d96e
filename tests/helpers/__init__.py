"""Corpora and results that several tests share."""
