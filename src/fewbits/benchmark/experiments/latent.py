"""What pictures need a trained model for: the latent space drawn in a plane, and the words nearest to some words.

Learning takes minutes, drawing seconds. So what was found is saved as a small file, and the report only reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.preprocessing import normalize

from fewbits.benchmark.evaluate import versions
from fewbits.data.datasets import Dataset
from fewbits.errors import MissingExtraError, ParameterError
from fewbits.hashers._neural import NeuralHasher
from fewbits.hashers.registry import METHODS, find_method, make_hasher
from fewbits.hashers.vdsh import VDSH
from fewbits.storage import read_json, write_json

FOLDER = "figures"
PICTURED = ("arm-dvae", "nash", "vdsh", "bernoulli-vae")
DATASET, BITS = "ng20", 32  # what the paper draws
WORDS = ("weapons", "medical", "companies", "book")
NEIGHBOURS = 4
POINTS = 2000


@dataclass(frozen=True)
class Figure:
    """A trained model's latent space in the plane, and the nearest words by its decoder."""

    method: str
    dataset: str
    bits: int
    seed: int
    label_names: list[str]
    classes: list[int]  # of each point: its document's first label
    points: list[list[float]]  # x and y
    words: dict[str, list[str]]  # the nearest to each
    versions: dict[str, str]
    data_fingerprint: str


def make_figure(method: str, dataset: Dataset, bits: int = BITS, seed: int = 0, words: Sequence[str] = WORDS) -> Figure:
    """Train a neural method without changes to its parameters, and look at what it has learnt."""
    if not issubclass(find_method(method).hasher, NeuralHasher):
        neural = [name for name, known in METHODS.items() if issubclass(known.hasher, NeuralHasher)]
        raise ParameterError(f"{method} has no latent space", allowed=", ".join(neural), got=method)
    project = _projection()
    hasher = make_hasher(method, bits, seed).fit(dataset.train.features, dataset.train.labels)
    assert isinstance(hasher, NeuralHasher)
    test = dataset.test
    chosen = np.sort(np.random.default_rng(0).permutation(len(test))[:POINTS])
    latent = hasher._logits(test.features[chosen])
    if not isinstance(hasher, VDSH):  # there, these are the means of the latent variable already
        latent = expit(latent)
    return Figure(
        method=method,
        dataset=dataset.name,
        bits=bits,
        seed=seed,
        label_names=dataset.label_names,
        classes=np.asarray(test.labels[chosen].argmax(axis=1)).ravel().tolist(),
        points=np.round(project(latent), 2).astype(float).tolist(),
        words=nearest_words(hasher.decoder_embeddings_, dataset.vocabulary, words),
        versions=versions(),
        data_fingerprint=dataset.fingerprint,
    )


def nearest_words(
    embeddings: NDArray[np.float32], vocabulary: Sequence[str], words: Sequence[str]
) -> dict[str, list[str]]:
    """The nearest words by cosine of the decoder's embeddings (words, bits)."""
    directions = normalize(embeddings)
    found = {}
    for word in set(words) & set(vocabulary):
        place = vocabulary.index(word)
        order = np.argsort(-(directions @ directions[place]), kind="stable")
        found[word] = [vocabulary[other] for other in order if other != place][:NEIGHBOURS]
    return {word: found[word] for word in words if word in found}


def save_figure(figure: Figure, results: Path) -> Path:
    """Write one file for a method, data set and length."""
    path = Path(results) / FOLDER / f"{figure.method}-{figure.dataset}-{figure.bits}bits.json"
    write_json(path, asdict(figure))
    return path


def load_figures(results: Path) -> Iterator[Figure]:
    """Read all figures, in the order of the methods."""
    found = [Figure(**read_json(path)) for path in sorted((Path(results) / FOLDER).glob("*.json"))]
    return iter(sorted(found, key=lambda figure: list(METHODS).index(figure.method)))


def as_in_the_paper(figures: Iterable[Figure]) -> dict[str, Figure]:
    """Those of the paper's data set and length, by method."""
    return {figure.method: figure for figure in figures if (figure.dataset, figure.bits) == (DATASET, BITS)}


def _projection() -> Any:
    try:
        from umap import UMAP
    except ImportError as error:
        raise MissingExtraError("drawing a latent space", extra="report") from error
    return UMAP(n_components=2, random_state=0, n_jobs=1).fit_transform
