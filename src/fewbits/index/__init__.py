"""Codes under ids of the user's own, searched by Hamming distance."""

from fewbits.index.base import Index, Neighbours
from fewbits.index.flat import FlatIndex

__all__ = ["FlatIndex", "Index", "Neighbours"]
