"""RCV1-v2 as scikit-learn fetches it: tf-idf rows with several of 103 topics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import fetch_rcv1

from fewbits.corpus.terms import TermTable
from fewbits.errors import MissingFileError


def read_rcv1(folder: Path) -> TermTable:
    """Read RCV1 from scikit-learn's folder, fetching it there if it is not yet.

    scikit-learn keeps what it has fetched in a format of its own (joblib), and reads it back itself.
    """
    try:
        bunch = fetch_rcv1(data_home=folder)
    except OSError as error:
        raise MissingFileError(
            f"RCV1 is not in {folder} and cannot be fetched",
            got=error,
            hint="Run it once on a machine with a network, and copy the folder RCV1.",
        ) from error
    names = [str(name) for name in bunch.target_names]
    target = bunch.target.tocsr()
    bounds = zip(target.indptr[:-1], target.indptr[1:], strict=True)
    return TermTable(
        ids=[str(number) for number in np.asarray(bunch.sample_id)],
        label_sets=[tuple(names[column] for column in sorted(target.indices[low:high])) for low, high in bounds],
        terms=bunch.data,
        vocabulary=[f"word-{number}" for number in range(bunch.data.shape[1])],  # published without its words
        weighted=True,
    )
