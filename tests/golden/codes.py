"""Codes of every method on the corpus, and for some methods the margins of the bits.

Run as a module (``python -m``), it prints them as JSON. The tests run it in a separate process with one thread, because
the number of threads changes the last digits of sums, and so codes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

import fewbits
from fewbits import Document, PairwiseHasher, TextVectorizer
from fewbits.hashers.registry import METHODS, make_hasher

from .corpus import read_corpus

N_BITS = 32
EVERY = 12  # margins of every 12th document are recorded
SMALL: dict[str, Any] = {"epochs": 10, "hidden": (32, 32)}
BUDGETS: dict[str, dict[str, Any]] = {  # parameters that shorten training, by method
    "s-rbm": {**SMALL, "pretraining_epochs": 1},
    "ksh": {"n_steps": 40, "n_anchors": 60},
    "agh": {"n_anchors": 60},
    "shttm": {"n_turns": 3},
    **dict.fromkeys(("vdsh", "vdsh-s", "vdsh-sp", "nash", "nash-n", "nash-dn", "arm-dvae"), SMALL),
    **dict.fromkeys(("nash-dn-s", "psh-gs", "psh-arm"), SMALL),
    "bernoulli-vae": {"epochs": 10},  # with the default hidden layers and refinements
    "pairwise": {"epochs": 10},
}
WITH_MARGINS = ("lsh", "itq", "sth", "ssh", "vdsh", "bernoulli-vae", "pairwise")
ESTIMATORS = ("arm", "disarm", "leave-one-out", "straight-through", "gumbel-softmax", "reinmax")
QUICK: dict[str, Any] = {"epochs": 10, "hidden": (), "refinements": 0}


class Features:
    """Rows of features with the labels of their documents."""

    def __init__(self, X: Any, documents: list[Document]) -> None:
        names = sorted({label for document in documents for label in document.labels})
        self.X = X
        self.labels = sparse.csr_array(
            np.array([[name in document.labels for name in names] for document in documents], dtype=np.uint8)
        )
        self.classes = np.array([document.labels[0] for document in documents])

    def few_labels(self, every: int) -> Any:
        """Return the labels of one document in ``every``; the others have none."""
        return sparse.csr_array(self.labels.multiply((np.arange(self.X.shape[0]) % every == 0)[:, None]))

    def pairs(self) -> tuple[Any, Any]:
        """Return pairs of documents, and whether the two have a label in common."""
        pairs = np.random.default_rng(5).integers(0, self.X.shape[0], (150, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        same = (self.labels[pairs[:, 0]].multiply(self.labels[pairs[:, 1]])).sum(axis=1) > 0
        return pairs, np.asarray(same).ravel()


def text_features() -> Features:
    """Return the corpus as rows of tf-idf."""
    documents = read_corpus()
    return Features(TextVectorizer().fit_transform(document.text for document in documents), documents)


def wide_features() -> Features:
    """Return random rows of 2,100 features, half of whose values are in columns of the document's first label.

    With so many features encoders are linear by default, neighbours are found in fewer dimensions, and of a large first
    layer only the rows of a batch's words are updated.
    """
    documents = read_corpus()
    generator = np.random.default_rng(7)
    names = sorted({document.labels[0] for document in documents})
    table = np.zeros((len(documents), 2100), dtype=np.float32)
    for row, document in zip(table, documents, strict=True):
        row[generator.integers(0, 2100, 20)] = generator.random(20)
        row[names.index(document.labels[0]) * 350 + generator.integers(0, 350, 20)] = generator.random(20)
        row /= np.linalg.norm(row)
    return Features(sparse.csr_array(table), documents)


def fits() -> dict[str, Callable[[], tuple[Any, Any]]]:
    """Return functions that fit a hasher and return it with the rows to encode, by name."""
    corpus, wide = text_features(), wide_features()

    def fit(method: str, on: Features = corpus, y: Any = None, **parameters: Any) -> tuple[Any, Any]:
        return make_hasher(method, N_BITS, 0, **parameters).fit(on.X, y), on.X

    def fit_pairs(**parameters: Any) -> tuple[Any, Any]:
        hasher = PairwiseHasher(N_BITS, random_state=0, epochs=10, **parameters)
        return hasher.fit_pairs(corpus.X, *corpus.pairs()), corpus.X

    found: dict[str, Callable[[], tuple[Any, Any]]] = {}
    for name, method in METHODS.items():
        y = None if method.setting == "unsupervised" else corpus.labels
        found[name] = lambda name=name, y=y: fit(name, y=y, **BUDGETS.get(name, {}))  # type: ignore[misc]
    for one in ESTIMATORS:
        found[f"bernoulli-vae, estimator {one}"] = lambda one=one: fit(  # type: ignore[misc]
            "bernoulli-vae", estimator=one, **QUICK
        )
    few = corpus.few_labels(3)
    stopped = {"validation_fraction": 0.2, "patience": 1, "clip": 1.0, "schedule": "constant"}
    return {
        **found,
        "pairwise, few labels": lambda: fit("pairwise", y=few, **QUICK),
        "pairwise, one class per document": lambda: fit("pairwise", y=corpus.classes, **QUICK),
        "pairwise, fit_pairs": lambda: fit_pairs(hidden=(32,)),
        "pairwise, fit_pairs, no refinements": lambda: fit_pairs(hidden=(32,), refinements=0, validation_fraction=0.1),
        "pairwise, early stopping": lambda: fit("pairwise", y=corpus.labels, **{**QUICK, **stopped, "epochs": 30}),
        "pairwise, random pairs": lambda: fit("pairwise", y=corpus.labels, pairs="random", **QUICK),
        "bernoulli-vae, early stopping": lambda: fit("bernoulli-vae", **{**QUICK, **stopped, "epochs": 30}),
        "bernoulli-vae, noise and prior": lambda: fit("bernoulli-vae", noise=True, prior=0.3, dropout=0.1, **SMALL),
        # each median is some document's own value: the rule for equal values decides its bit
        "vdsh, odd number of documents": lambda: fit("vdsh", Features(corpus.X[:239], read_corpus()[:239]), **SMALL),
        "vdsh-s, few labels": lambda: fit("vdsh-s", y=few, validation_fraction=0.2, **SMALL),
        "ssh, few labels": lambda: fit("ssh", y=few),
        "ksh, few labels": lambda: fit("ksh", y=few, **BUDGETS["ksh"]),
        "shttm, few labels": lambda: fit("shttm", y=few, **BUDGETS["shttm"]),
        "class-code, few labels": lambda: fit("class-code", y=few),
        "itq, samples": lambda: fit("itq", max_rows=100, n_iterations=5),
        "wide: bernoulli-vae": lambda: fit("bernoulli-vae", wide, epochs=6),
        "wide: pairwise": lambda: fit("pairwise", wide, wide.labels, epochs=6),
        "wide: pairwise, few labels": lambda: fit("pairwise", wide, wide.few_labels(3), epochs=6),
        "wide: large first layer": lambda: fit(
            "bernoulli-vae", wide, epochs=6, hidden=(1000,), n_neighbours=0, refinements=0
        ),
        "wide: itq": lambda: fit("itq", wide),
        "dense: itq": lambda: fit("itq", Features(corpus.X.toarray(), read_corpus())),
    }


def platform_facts() -> dict[str, Any]:
    """Return facts on which codes depend: the processor as detected by the libraries, and their versions."""
    import torch

    blas = {f"{one['internal_api']} {one.get('architecture')}" for one in threadpool_info() if "architecture" in one}
    return {
        "processor": torch.backends.cpu.get_cpu_capability(),
        "blas": sorted(blas),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn", "torch")},
    }


def fitted_codes() -> dict[str, Any]:
    """Fit everything; return codes in hexadecimal and margins, by name."""
    found: dict[str, Any] = {"machine": platform_facts(), "codes": {}, "margins": {}}
    for name, fitted in fits().items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # short training leaves constant bits
            hasher, X = fitted()
        found["codes"][name] = [code.tobytes().hex() for code in np.packbits(hasher.transform(X), axis=1)]
        if name in WITH_MARGINS:
            found["margins"][name] = hasher.margins(X[::EVERY]).astype(float).round(5).tolist()
        print(f"{time.process_time() - start:6.1f} s  {name}", file=sys.stderr)
    return found


def one_thread_environment() -> dict[str, str]:
    """Return the environment of a process with one thread that imports the tested fewbits."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    package = Path(fewbits.__file__).resolve().parent.parent
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, **dict.fromkeys(names, "1"), "PYTHONPATH": path}


def codes_in_one_thread() -> dict[str, Any]:
    """Fit everything in a separate process with one thread."""
    folder = Path(__file__).resolve().parent
    command = [sys.executable, "-m", f"{folder.name}.codes"]
    environment = one_thread_environment()
    done = subprocess.run(command, cwd=folder.parent, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    json.dump(fitted_codes(), sys.stdout)
