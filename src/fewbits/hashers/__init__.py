"""Methods that learn short binary codes from rows of features, one file per method."""

from fewbits.hashers.base import Hasher, LinearHasher
from fewbits.hashers.bernoulli_vae import BernoulliVAE
from fewbits.hashers.itq import ITQ
from fewbits.hashers.lsh import RandomHyperplanes
from fewbits.hashers.pairwise import PairwiseHasher

__all__ = ["ITQ", "BernoulliVAE", "Hasher", "LinearHasher", "PairwiseHasher", "RandomHyperplanes"]
