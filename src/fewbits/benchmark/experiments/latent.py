"""Latent spaces of trained models: documents projected to the plane, and nearest words by the decoder's embeddings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.preprocessing import normalize

from fewbits.benchmark.evaluate import versions
from fewbits.benchmark.experiments.base import Experiment
from fewbits.data.datasets import Dataset
from fewbits.errors import MissingExtraError, ParameterError
from fewbits.hashers._neural import NeuralHasher
from fewbits.hashers.registry import METHODS, find_method, make_hasher
from fewbits.hashers.vdsh import VDSH

SHOWN_METHODS = ("arm-dvae", "nash", "vdsh", "bernoulli-vae")
DATASET, BITS = "ng20", 32  # those of the paper's figure
WORDS = ("weapons", "medical", "companies", "book")
N_NEAREST_WORDS = 4
MAX_POINTS = 2000


@dataclass(frozen=True)
class Figure:
    """A trained model's latent space in the plane, and the nearest words by its decoder."""

    method: str
    dataset: str
    bits: int
    seed: int
    label_names: list[str]
    classes: list[int]  # per point: the first label of its document
    points: list[list[float]]  # x and y
    words: dict[str, list[str]]  # nearest words of each word
    versions: dict[str, str]
    data_fingerprint: str


@dataclass(frozen=True)
class LatentSpace(Experiment[Figure]):
    """Train neural methods with their preset parameters and project the test documents to the plane.

    Training takes minutes and drawing seconds: the report only reads the stored points.
    """

    folder = "figures"
    fact = Figure

    dataset: Dataset
    methods: Sequence[str] = SHOWN_METHODS
    bits: int = BITS
    seed: int = 0
    words: Sequence[str] = WORDS

    def measure(self) -> Iterator[Figure]:
        """Yield the figure of one method at a time."""
        neural = [name for name, method in METHODS.items() if issubclass(method.hasher, NeuralHasher)]
        for name in self.methods:
            if find_method(name).name not in neural:
                raise ParameterError(f"{name} has no latent space", allowed=", ".join(neural), got=name)
        project = _projection()
        for name in self.methods:
            yield self._figure(name, project)

    def _figure(self, method: str, project: Any) -> Figure:
        dataset = self.dataset
        hasher = make_hasher(method, self.bits, self.seed).fit(dataset.train.features, dataset.train.labels)
        assert isinstance(hasher, NeuralHasher)
        sample = np.sort(np.random.default_rng(0).permutation(len(dataset.test))[:MAX_POINTS])
        latent = hasher._logits(dataset.test.features[sample])
        if not isinstance(hasher, VDSH):  # whose logits are the means of a Gaussian
            latent = expit(latent)
        return Figure(
            method=method,
            dataset=dataset.name,
            bits=self.bits,
            seed=self.seed,
            label_names=dataset.label_names,
            classes=np.asarray(dataset.test.labels[sample].argmax(axis=1)).ravel().tolist(),
            points=np.round(project(latent), 2).astype(float).tolist(),
            words=nearest_words(hasher.decoder_embeddings_, dataset.vocabulary, self.words),
            versions=versions(),
            data_fingerprint=dataset.fingerprint,
        )

    @classmethod
    def file_name(cls, facts: Figure) -> str:
        """Return the name of the JSON file."""
        return f"{facts.method}-{facts.dataset}-{facts.bits}bits.json"


def nearest_words(
    embeddings: NDArray[np.float32], vocabulary: Sequence[str], words: Sequence[str]
) -> dict[str, list[str]]:
    """Return the nearest words of each word by the cosine of the decoder's embeddings (words, bits)."""
    directions = normalize(embeddings)
    nearest = {}
    for word in words:
        if word in vocabulary:
            position = vocabulary.index(word)
            order = np.argsort(-(directions @ directions[position]), kind="stable")
            nearest[word] = [vocabulary[other] for other in order if other != position][:N_NEAREST_WORDS]
    return nearest


def figures_of_the_paper(figures: Iterable[Figure]) -> dict[str, Figure]:
    """Return the figures with the paper's data set and code length, by method."""
    return {figure.method: figure for figure in figures if (figure.dataset, figure.bits) == (DATASET, BITS)}


def _projection() -> Any:
    try:
        from umap import UMAP
    except ImportError as error:
        raise MissingExtraError("drawing a latent space", extra="report") from error
    return UMAP(n_components=2, random_state=0, n_jobs=1).fit_transform
