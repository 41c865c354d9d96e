"""Checkpoints: an interrupted training resumes to the same result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbits import BernoulliVAE, PairwiseHasher
from fewbits.errors import BrokenFolderError
from helpers.training import CLASSES, NEW_ROWS, QUICK, ROWS

pytestmark = pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")


TRAIN = """
import sys
sys.path.insert(0, sys.argv[2])
from helpers.training import CLASSES, NEW_ROWS, QUICK, ROWS
from fewbits import BernoulliVAE
def show(record):
    print(record["epoch"], flush=True)
options = {"epochs": 30, "refinements": 1, "validation_fraction": 0.1, "callbacks": (show,)}
hasher = BernoulliVAE(16, random_state=0, **options, checkpoint=sys.argv[1] or None)
hasher.fit(ROWS)
import numpy as np
np.save(sys.argv[3], hasher.transform(ROWS))
np.save(sys.argv[3] + ".weights", hasher.decoder_embeddings_)
"""


@pytest.mark.slow
def test_killed_in_the_middle_and_resumed_the_codes_are_identical_to_the_bit(tmp_path: Path) -> None:
    def start(checkpoint: str, output: str) -> subprocess.Popen[str]:
        arguments = [sys.executable, "-c", TRAIN, checkpoint, str(Path(__file__).parents[1]), str(tmp_path / output)]
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)

    whole = start("", "whole.npy")
    assert whole.wait() == 0
    for kill_after in (7, 12):  # records, of both rounds together
        process = start(str(tmp_path / "checkpoint"), "cut.npy")
        assert process.stdout is not None
        for _ in range(kill_after):
            process.stdout.readline()
        time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not (tmp_path / "cut.npy").exists()
    last = start(str(tmp_path / "checkpoint"), "cut.npy")
    output, _ = last.communicate()
    assert last.returncode == 0
    assert 0 < len(output.splitlines()) < 60
    assert np.array_equal(np.load(tmp_path / "whole.npy"), np.load(tmp_path / "cut.npy"))
    assert np.array_equal(np.load(tmp_path / "whole.npy.weights.npy"), np.load(tmp_path / "cut.npy.weights.npy"))


def test_pairs_belong_to_a_training_and_its_checkpoint(tmp_path: Path) -> None:
    options: dict[str, Any] = {**QUICK, "epochs": 1, "refinements": 0, "checkpoint": str(tmp_path)}
    PairwiseHasher(**options).fit_pairs(ROWS, [(0, 3), (0, 1)], [True, False])
    for pairs, same in (([(0, 3), (0, 1)], [False, True]), ([(1, 4), (0, 1)], [True, False])):
        with pytest.raises(BrokenFolderError, match="holds a checkpoint of another training"):
            PairwiseHasher(**options).fit_pairs(ROWS, pairs, same)


def test_a_training_with_a_random_seed_resumes_with_the_same_seed(tmp_path: Path) -> None:
    options: dict[str, Any] = {"n_bits": 8, "refinements": 0, "checkpoint": str(tmp_path)}
    first = BernoulliVAE(epochs=3, **options).fit(ROWS)
    again = BernoulliVAE(epochs=3, **options).fit(ROWS)  # nothing is left to train
    assert np.array_equal(first.decoder_embeddings_, again.decoder_embeddings_)


@pytest.mark.parametrize("kind", ["labels", "pairs"])
def test_an_interrupted_supervised_training_resumes_to_the_same_codes(tmp_path: Path, kind: str) -> None:
    def fit(**options: Any) -> PairwiseHasher:
        hasher = PairwiseHasher(**{**QUICK, "epochs": 6}, **options)
        if kind == "labels":
            return hasher.fit(ROWS, CLASSES)
        return hasher.fit_pairs(ROWS, [(0, 3), (0, 1), (1, 4), (2, 3)], [1, 0, 1, 0])

    def cut_off(record: dict[str, float]) -> None:
        if record["epoch"] == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(checkpoint=str(tmp_path), callbacks=(cut_off,))
    resumed, whole = fit(checkpoint=str(tmp_path)), fit()
    assert np.array_equal(resumed.transform(NEW_ROWS), whole.transform(NEW_ROWS))
    assert np.array_equal(resumed.decoder_embeddings_, whole.decoder_embeddings_)


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    BernoulliVAE(**{**QUICK, "epochs": 1}, refinements=0, checkpoint=str(tmp_path)).fit(ROWS)
    with pytest.raises(
        BrokenFolderError, match=r"holds a checkpoint of another training. Its data or parameters differ"
    ):
        BernoulliVAE(**{**QUICK, "epochs": 1}, refinements=0, learning_rate=0.5, checkpoint=str(tmp_path)).fit(ROWS)
