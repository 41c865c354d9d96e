"""Pairwise supervised hashing: a Bernoulli variational auto-encoder whose codes also tell labels and pairs apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from fewbits.codes import check_n_bits
from fewbits.corpus.labels import as_label_table
from fewbits.errors import DataError, ParameterError
from fewbits.hashers.bernoulli import as_prior, as_range
from fewbits.hashers.neural import NeuralHasher, held_out_rows, need_torch

PAIRS = ("balanced", "random")
DISTANCES = ("expected", "sampled")
Self = TypeVar("Self", bound="PairwiseHasher")


class PairwiseHasher(NeuralHasher):
    """Learn codes that explain the words, tell the labels, and bring documents of one label together (eq:sph).

    The paper's PSH draws two mini-batches, pairs them document by document and samples every term with the ARM
    (PSH-ARM) or Gumbel-Softmax (PSH-GS) gradient. The defaults here use the flip gradient, a linear encoder, and the
    exact expectation of the distance over all pairs of a batch. Documents without a label enter the words' terms only.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    hidden, dropout, word_dropout, initial_scale, noise, estimator, prior :
        As for :class:`BernoulliVAE`.
    kl_weight : float or (float, float), default=0.0
        Weight lambda of the divergence from the prior.
    reconstruction_weight : float, default=0.1
        Weight of the words.
    label_weight : float or (float, float), default=30.0
        Weight alpha of the classifier on the code, or its values at the start and at the end of training. A document
        with several labels has its target spread evenly over them.
    pair_weight : float, default=0.1
        Weight beta of the pair loss.
    margin : float or None, default=0.5
        Share of the bits beyond which pairs of different labels need not go further apart; None for no end.
    pairs : {"balanced", "random"}, default="balanced"
        All pairs of a batch with both kinds counting alike, or two mini-batches paired document by document.
    pair_distance : {"expected", "sampled"}, default="expected"
        Whether a pair's distance is the exact expectation, or drawn (random pairs only).
    epochs, batch_size, learning_rate, schedule, clip, validation_fraction, patience, checkpoint, callbacks, device :
        As for :class:`BernoulliVAE`.
    verbose, random_state :
        As for :class:`BernoulliVAE`.

    References
    ----------
    S. Zamani Dadaneh, S. Boluki, M. Yin, M. Zhou, X. Qian. Pairwise supervised hashing with Bernoulli variational
    auto-encoder and self-control gradient estimator. UAI 2020.
    """

    def __init__(
        self,
        n_bits: int = 64,
        *,
        hidden: Sequence[int] = (),
        dropout: float = 0.0,
        word_dropout: float = 0.3,
        initial_scale: float = 0.1,
        noise: bool = False,
        estimator: str = "flip",
        kl_weight: float | tuple[float, float] = 0.0,
        prior: float | Sequence[float] = 0.5,
        reconstruction_weight: float = 0.1,
        label_weight: float | tuple[float, float] = 30.0,
        pair_weight: float = 0.1,
        margin: float | None = 0.5,
        pairs: str = "balanced",
        pair_distance: str = "expected",
        epochs: int = 25,
        batch_size: int = 100,
        learning_rate: float = 0.03,
        schedule: str = "cosine",
        clip: float | None = None,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        checkpoint: str | None = None,
        callbacks: Sequence[Callable[[dict[str, float]], Any]] = (),
        device: str = "cpu",
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_bits, random_state=random_state)
        self.hidden = hidden
        self.dropout = dropout
        self.word_dropout = word_dropout
        self.initial_scale = initial_scale
        self.noise = noise
        self.estimator = estimator
        self.kl_weight = kl_weight
        self.prior = prior
        self.reconstruction_weight = reconstruction_weight
        self.label_weight = label_weight
        self.pair_weight = pair_weight
        self.margin = margin
        self.pairs = pairs
        self.pair_distance = pair_distance
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.clip = clip
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.checkpoint = checkpoint
        self.callbacks = callbacks
        self.device = device
        self.verbose = verbose

    def _fit(self, X: Any, y: Any) -> None:
        from fewbits.learning.batches import AllPairsBatches, RandomPairsBatches, Words

        rows = self._prepare(X)
        if y is None:
            raise DataError("requires y to be passed, but the target y is None: this method learns from labels")
        labels = as_label_table(y, rows.shape[0])
        if (labels.sum(axis=0) > 0).sum() < 2 and rows.shape[0] > 1:
            raise DataError("all labelled documents have one class", allowed="two classes or more")
        seed = self._seed()
        kinds = {"balanced": AllPairsBatches, "random": RandomPairsBatches}

        def batches(part: Any) -> Any:
            options: dict[str, Any] = {"batch_size": self.batch_size, "seed": seed, "device": self.device}
            return kinds[self.pairs](rows[part], Words(rows[part]), labels=labels[part], **options)

        learnt_from, held_out = held_out_rows(rows.shape[0], self.validation_fraction, seed)
        looked_at = batches(held_out) if len(held_out) else None
        self._learn(rows[learnt_from], batches(learnt_from), looked_at, labels[learnt_from], seed)

    def fit_pairs(self: Self, X: Any, pairs: ArrayLike, same: ArrayLike) -> Self:
        """Learn from pairs alone: ``pairs`` (m, 2) are rows of X, ``same`` (m,) tells whether they belong together.

        No label is needed: click logs or marked duplicates are enough. All rows of X enter the words' terms.
        """
        from fewbits.learning.batches import GivenPairsBatches, Words

        check_n_bits(self.n_bits)
        rows = self._prepare(validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64]))
        chosen, together = np.asarray(pairs), np.asarray(same).astype(bool)
        if chosen.ndim != 2 or chosen.shape[1] != 2 or chosen.dtype.kind not in "iu" or len(chosen) != len(together):
            raise DataError(
                "pairs and same do not fit", allowed="(m, 2) rows and (m,)", got=f"{chosen.shape}, {together.shape}"
            )
        if not len(chosen) or chosen.min() < 0 or chosen.max() >= rows.shape[0]:
            raise DataError("pairs are rows of X", allowed=f"0 to {rows.shape[0] - 1}, one pair or more")
        seed = self._seed()
        options: dict[str, Any] = {"batch_size": self.batch_size, "seed": seed, "device": self.device}
        batches = GivenPairsBatches(rows, Words(rows), chosen.astype(np.int64), together, **options)
        self._learn(rows, batches, None, None, seed)
        return self

    def _prepare(self, X: Any) -> Any:
        need_torch()
        for name, value, allowed in (("pairs", self.pairs, PAIRS), ("pair_distance", self.pair_distance, DISTANCES)):
            if value not in allowed:
                raise ParameterError(f"{name} is unknown", allowed=", ".join(allowed), got=repr(value))
        return self._check_rows(X)

    def _learn(self, known: Any, batches: Any, held_out: Any, labels: Any, seed: int) -> None:
        from fewbits.learning.estimators import make_estimator
        from fewbits.learning.objective import Objective, Weights
        from fewbits.learning.pairs import PairLoss

        weights = Weights(
            reconstruction=self.reconstruction_weight,
            kl=as_range(self.kl_weight),
            prior=as_prior(self.prior),
            label=as_range(self.label_weight),
            pair=self.pair_weight,
        )
        objective = Objective(
            weights,
            make_estimator(self.estimator),
            PairLoss(self.margin),
            sample_pairs=self.pair_distance == "sampled",
        )
        model = self._train(
            known, batches, objective, self.n_bits, seed, held_out=held_out, labels=labels, checkpoint=self.checkpoint
        )
        self._keep(model, known)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
