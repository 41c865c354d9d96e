"""Neural hashers: training, validation of parameters and data, encoding without torch."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from fewbits import BernoulliVAE, PairwiseHasher
from fewbits.errors import DataError, EmptyDocumentsWarning, MissingExtraError, ParameterError
from fewbits.hashers._neural import ConstantBitsWarning, NeuralHasher
from fewbits.hashers.registry import read_hasher, write_hasher
from fewbits.nn.layers import SparseBatch
from helpers.training import CLASSES, NEW_ROWS, QUICK, ROWS, precision

pytestmark = pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")


def test_unsupervised_codes_find_documents_of_the_same_topic() -> None:
    hasher = BernoulliVAE(**QUICK, n_neighbours=10).fit(ROWS)
    assert precision(hasher) > 0.8
    assert hasher.history_[-1]["reconstruction"] < hasher.history_[0]["reconstruction"]
    assert [record["epoch"] for record in hasher.history_] == list(range(1, 13))


@pytest.mark.parametrize(
    "estimator", ["arm", "disarm", "leave-one-out", "flip", "straight-through", "gumbel-softmax", "reinmax"]
)
def test_every_estimator_trains_a_supervised_model(estimator: str) -> None:
    # the exact pair term would train the encoder by itself
    hasher = PairwiseHasher(**QUICK, estimator=estimator, pair_weight=0.0).fit(ROWS, CLASSES)
    assert precision(hasher) > 0.9


@pytest.mark.parametrize("refinements", [0, 1])
def test_a_prior_may_be_given_per_bit(refinements: int, tmp_path: Path) -> None:
    prior = np.array([0.1, 0.9] * 8)
    options = {**QUICK, "kl_weight": 20.0, "n_neighbours": 10, "refinements": refinements}
    hasher = BernoulliVAE(**options, prior=prior).fit(ROWS)
    write_hasher(hasher, tmp_path)
    assert np.array_equal(read_hasher(tmp_path).transform(ROWS), hasher.transform(ROWS))
    assert hasher.bit_balance_[::2].max() < 0.5 < hasher.bit_balance_[1::2].min()


def test_bits_that_have_collapsed_are_reported() -> None:
    with pytest.warns(ConstantBitsWarning, match="of 16 bits are the same for nearly all training documents"):
        BernoulliVAE(**{**QUICK, "epochs": 5}, kl_weight=50.0, prior=0.01, refinements=0).fit(ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConstantBitsWarning)
        PairwiseHasher(**QUICK).fit(ROWS, CLASSES)


@pytest.mark.parametrize("hidden", [(), (20,), (20, 10)])
def test_codes_are_those_of_the_networks_that_were_trained(
    hidden: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[Any] = []
    train = NeuralHasher._train

    def train_and_keep(self: NeuralHasher, model: Any, *rest: Any, **options: Any) -> Any:
        trained.append(model)
        return train(self, model, *rest, **options)

    monkeypatch.setattr(NeuralHasher, "_train", train_and_keep)
    options = {**QUICK, "epochs": 5, "learning_rate": 0.01, "svm_share": 0.0, "posterior_weight": 0}
    hasher = PairwiseHasher(**options, hidden=hidden)
    hasher.fit(ROWS, CLASSES)
    with torch.no_grad():
        logits = trained[-1].eval().encoder(SparseBatch.from_rows(NEW_ROWS)).numpy()
    clear = np.abs(logits) > 1e-5  # else rounding decides
    assert clear.mean() > 0.99
    assert np.array_equal(hasher.transform(NEW_ROWS)[clear], (logits >= 0)[clear])


@pytest.mark.parametrize("hidden", [(), (20,), (20, 10)])
def test_without_torch_a_saved_hasher_gives_the_same_codes(
    tmp_path: Path, hidden: tuple[int, ...], encode_without_torch: Callable[[Path, Any], Any]
) -> None:
    hasher = PairwiseHasher(**{**QUICK, "epochs": 5}, hidden=hidden, learning_rate=0.01).fit(ROWS, CLASSES)
    write_hasher(hasher, tmp_path)
    assert np.array_equal(encode_without_torch(tmp_path, NEW_ROWS), hasher.transform(NEW_ROWS))


@pytest.mark.parametrize("package", ["torch", "numba"])
def test_training_without_torch_or_numba_names_the_install_command(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for hasher in (BernoulliVAE(), PairwiseHasher()):
        with pytest.raises(MissingExtraError, match=r"pip install 'fewbits\[train\]'"):
            hasher.fit(ROWS, CLASSES)


@pytest.mark.parametrize(
    ("options", "rows", "labels", "error", "message"),
    [
        ({}, ROWS, CLASSES[:-1], DataError, r"labels and documents differ in number \(allowed: 300; got: 299\)"),
        (
            {},
            ROWS,
            CLASSES * 0,
            DataError,
            r"all labelled documents have the same class \(allowed: two classes or more\)",
        ),
        ({}, ROWS, None, DataError, r"this method learns from labels"),
        ({}, -ROWS, CLASSES, DataError, r"Negative values in data"),
        ({}, ROWS * np.nan, CLASSES, ValueError, r"NaN"),
        ({}, ROWS, np.full((300, 2), 5), DataError, r"a label table must contain only 0 and 1 \(got: \[5\]\)"),
        ({"n_bits": 0}, ROWS, CLASSES, ParameterError, r"n_bits, the code length, is out of range"),
        ({"estimator": "magic"}, ROWS, CLASSES, ParameterError, r"unknown gradient estimator \(allowed: arm, disarm"),
        ({"schedule": "magic"}, ROWS, CLASSES, ParameterError, r"unknown schedule \(allowed: cosine, constant"),
        (
            {"pairs": "magic"},
            ROWS,
            CLASSES,
            ParameterError,
            r"pairs is unknown \(allowed: balanced, random; got: 'magic'\)",
        ),
        ({"epochs": 0}, ROWS, CLASSES, ParameterError, r"epochs is out of range"),
        ({}, ROWS * 0, CLASSES, DataError, r"all documents are empty \(allowed: a nonzero value"),
        ({"svm_share": 1.5}, ROWS, CLASSES, ParameterError, r"svm_share is out of range \(allowed: 0 to 1; got: 1.5\)"),
        ({"validation_fraction": 1.0}, ROWS, CLASSES, ParameterError, r"validation_fraction is out of range"),
        (
            {"word_dropout": 1.0},
            ROWS,
            CLASSES,
            ParameterError,
            r"word_dropout is out of range \(allowed: 0 or more",
        ),
        ({"neighbour_weight": 5}, ROWS, CLASSES, ParameterError, r"neighbour_weight is out of range"),
        ({"learning_rate": -1}, ROWS, CLASSES, ParameterError, r"learning_rate is out of range \(allowed: above 0"),
        ({"clip": 0}, ROWS, CLASSES, ParameterError, r"clip is out of range \(allowed: above 0, or None; got: 0\)"),
        ({"margin": -1}, ROWS, CLASSES, ParameterError, r"margin is out of range \(allowed: above 0, up to 1, or None"),
        ({"noise": -1.0}, ROWS, CLASSES, ParameterError, r"noise is out of range \(allowed: True, False, or 0 or more"),
        ({"kl_weight": (0, 1, 2)}, ROWS, CLASSES, ParameterError, r"kl_weight is out of range \(allowed: 0 or more"),
        ({"hidden": 100}, ROWS, CLASSES, ParameterError, r"hidden is out of range \(allowed: a list of widths"),
        ({"hidden": (0,)}, ROWS, CLASSES, ParameterError, r"hidden is out of range \(allowed: a list of widths"),
        ({"device": "magic"}, ROWS, CLASSES, ParameterError, r"this device cannot be used \(allowed: cpu, or cuda"),
        ({"patience": 0, "validation_fraction": 0.2}, ROWS, CLASSES, ParameterError, r"patience is out of range"),
        ({"patience": 1}, ROWS, CLASSES, ParameterError, r"patience needs a validation part .* validation_fraction"),
        (
            {"validation_fraction": 0.9},
            ROWS[:3],
            CLASSES[:3],
            DataError,
            r"a validation_fraction of 0.9 leaves the training or the validation part empty .* got: 3 documents",
        ),
        ({"prior": 1.0}, ROWS, CLASSES, ParameterError, r"prior is out of range \(allowed: a number between 0 and 1"),
        ({"prior": (0.5, 0.5)}, ROWS, CLASSES, ParameterError, r"or one for each of the 16 bits; got: \(0.5, 0.5\)"),
    ],
)
def test_invalid_parameters_and_data_are_refused_with_the_reason(
    options: dict[str, Any], rows: Any, labels: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        PairwiseHasher(**{**QUICK, **options}).fit(rows, labels)


def test_documents_without_words_are_listed_and_the_others_are_used() -> None:
    rows = ROWS.copy().tolil()
    rows[[4, 17]] = 0
    with pytest.warns(EmptyDocumentsWarning, match=r"2 of 300 documents are empty .* \(rows 4, 17\)"):
        hasher = PairwiseHasher(**QUICK).fit(sparse.csr_array(rows), CLASSES)
    assert precision(hasher) > 0.9


def test_a_small_corpus_gets_more_epochs() -> None:
    hasher = PairwiseHasher(8, batch_size=150, random_state=0).fit(ROWS, CLASSES)
    assert len(hasher.history_) == 150  # of 2 steps


def test_few_features_get_a_hidden_layer_and_many_do_not() -> None:
    few = PairwiseHasher(8, epochs=1, random_state=0).fit(ROWS, CLASSES)
    wide = sparse.hstack([ROWS, sparse.csr_array((300, 1900))], format="csr")
    many = PairwiseHasher(8, epochs=1, random_state=0).fit(wide, CLASSES)
    assert [len(hasher.encoder_layers_) for hasher in (few, many)] == [2, 1]


def test_features_of_another_vocabulary_are_refused_when_encoding() -> None:
    hasher = PairwiseHasher(**{**QUICK, "epochs": 1}).fit(ROWS, CLASSES)
    with pytest.raises(ValueError, match="X has 99 features, but PairwiseHasher is expecting 100 features"):
        hasher.transform(ROWS[:, :99])


FORK = """
import os, sys
from helpers.corpora import topic_rows
from fewbits.hashers.registry import make_hasher
rows, classes = topic_rows(200)
codes = make_hasher("bernoulli-vae", 16, 0, epochs=1).fit(rows).transform(rows)
receiver, sender = os.pipe()
child = os.fork()
if child == 0:
    try:
        again = make_hasher("bernoulli-vae", 16, 0, epochs=1).fit(rows).transform(rows)
        os.write(sender, b"equal" if (again == codes).all() else b"different")
    except Exception as error:
        os.write(sender, f"{type(error).__name__}: {error}".encode())
    os._exit(0)
os.close(sender)
print(os.read(receiver, 4096).decode())
os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked")
@pytest.mark.parametrize(
    ("threads", "mkl_threads", "expected"),
    [
        ("1", "1", "equal"),
        ("2", "1", "FewbitsError: a process that has trained in several threads forked this one"),
        ("2", "2", "FewbitsError: a process that has trained in several threads forked this one"),
    ],
)
def test_training_after_a_fork_is_as_before_or_a_clear_error(threads: str, mkl_threads: str, expected: str) -> None:
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": mkl_threads, "PYTHONPATH": path}
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.stdout.startswith(expected), done.stderr
