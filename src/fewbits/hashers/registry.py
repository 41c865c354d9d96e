"""Every method by its name in the tables, in lower case; the names that result files and commands carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fewbits.errors import ParameterError
from fewbits.files import read_json, write_json
from fewbits.hashers.base import Hasher
from fewbits.hashers.bernoulli import BernoulliVAE
from fewbits.hashers.hyperplanes import RandomHyperplanes
from fewbits.hashers.itq import ITQ
from fewbits.hashers.pairwise import PairwiseHasher


@dataclass(frozen=True)
class Method:
    """A hasher with its name in the tables, whether it looks at labels, and parameters other than the defaults."""

    name: str
    title: str
    hasher: type[Hasher]
    setting: Literal["unsupervised", "supervised"]
    preset: Mapping[str, Any] = field(default_factory=dict)


# Section 4.2: two layers of 500, dropout 0.2 on the encoder's output, Adam with 5e-4, lambda 0.01. The paper does not
# tell batch size and epochs.
PAPER = {
    "hidden": (500, 500),
    "dropout": 0.2,
    "word_dropout": 0.0,
    "initial_scale": 0.1,
    "kl_weight": 0.01,
    "learning_rate": 5e-4,
    "schedule": "constant",
    "epochs": 30,
}
ARM_DVAE = {**PAPER, "estimator": "arm", "noise": True, "n_neighbours": 0, "refinements": 0}
# With the paper's alpha, rising from 0.01 to 0.1, the classifier hardly counts beside an ELBO near 60; this one was
# searched on ng20's validation part at 32 bits.
PSH = {
    **PAPER,
    "reconstruction_weight": 1.0,
    "label_weight": (1.0, 100.0),
    "pair_weight": 0.05,
    "margin": None,
    "pairs": "random",
    "pair_distance": "sampled",
}

METHODS = {
    method.name: method
    for method in (
        Method("lsh", "LSH", RandomHyperplanes, "unsupervised"),
        Method("itq", "ITQ", ITQ, "unsupervised"),
        Method("arm-dvae", "ARM-DVAE", BernoulliVAE, "unsupervised", ARM_DVAE),
        Method("bernoulli-vae", "BernoulliVAE (ours)", BernoulliVAE, "unsupervised"),
        Method("psh-gs", "PSH-GS", PairwiseHasher, "supervised", {**PSH, "estimator": "gumbel-softmax"}),
        Method("psh-arm", "PSH-ARM", PairwiseHasher, "supervised", {**PSH, "estimator": "arm"}),
        Method("pairwise", "PairwiseHasher (ours)", PairwiseHasher, "supervised"),
    )
}
HASHERS = {method.hasher.__name__: method.hasher for method in METHODS.values()}
WITHOUT_LABELS, WITH_LABELS = "bernoulli-vae", "pairwise"  # what learns codes of texts unless told otherwise
OF_EMBEDDINGS = "itq"  # the others explain words


def find_method(name: str) -> Method:
    """Look up a method by name."""
    if name not in METHODS:
        raise ParameterError("there is no such method", allowed=", ".join(METHODS), got=repr(name))
    return METHODS[name]


def make_hasher(name: str, n_bits: int, random_state: Any = None, **parameters: Any) -> Hasher:
    """Make a hasher by the name of its method.

    >>> make_hasher("itq", 16)
    ITQ(n_bits=16)
    """
    method = find_method(name)
    allowed = [known for known in method.hasher().get_params() if known not in ("n_bits", "random_state")]
    if unknown := set(parameters) - set(allowed):
        raise ParameterError(
            f"{name} has no such parameter", allowed=", ".join(allowed), got=", ".join(sorted(unknown))
        )
    return method.hasher(n_bits=n_bits, random_state=random_state, **{**method.preset, **parameters})


def write_hasher(hasher: Hasher, folder: Path) -> None:
    """Write a hasher together with its kind."""
    kind = type(hasher).__name__
    if HASHERS.get(kind) is not type(hasher):
        raise ParameterError("only a hasher of the registry can be saved", allowed=", ".join(HASHERS), got=kind)
    write_json(folder / "kind.json", {"hasher": kind})
    hasher.write(folder)


def read_hasher(folder: Path) -> Hasher:
    """Read what :func:`write_hasher` wrote."""
    kind = read_json(folder / "kind.json")["hasher"]
    if kind not in HASHERS:
        raise ParameterError("this fewbits has no such hasher", allowed=", ".join(HASHERS), got=repr(kind))
    return HASHERS[kind].read(folder)
