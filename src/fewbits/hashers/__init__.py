"""One file a method: each learns a short binary code from rows of features."""

from fewbits.hashers.base import Hasher, LinearHasher
from fewbits.hashers.hyperplanes import RandomHyperplanes
from fewbits.hashers.itq import ITQ

__all__ = ["ITQ", "Hasher", "LinearHasher", "RandomHyperplanes"]
