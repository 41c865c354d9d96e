"""Pairwise supervised hashing: a Bernoulli variational auto-encoder whose codes also tell labels and pairs apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewbits.data.labels import known_labels
from fewbits.errors import DataError, ParameterError
from fewbits.hashers._neural import (
    Neighbours,
    NeuralHasher,
    as_prior,
    as_range,
    default_hidden,
    default_neighbors,
    need_torch,
    train_validation_split,
)
from fewbits.hashers._svm import blend_with_svms

if TYPE_CHECKING:
    from fewbits.nn.losses import Objective

PAIRS = ("balanced", "random")
DISTANCES = ("expected", "sampled")
MOST = 0.5  # share of labelled documents from which on labels alone say what documents are about
PAIRS_ALONE = 3.0  # how much more pairs count where there are no labels
Self = TypeVar("Self", bound="PairwiseHasher")


class PairwiseHasher(NeuralHasher):
    """Learn codes that explain the words, tell the labels, and bring documents of one label together (eq:sph).

    The paper's PSH draws two mini-batches, pairs them document by document and samples every term with the ARM
    (PSH-ARM) or Gumbel-Softmax (PSH-GS) gradient. The defaults here use the flip gradient, a linear encoder, and the
    exact expectation of the distance over all pairs of a batch. Documents without a label enter the words' terms only.

    NASH-DN-S is this model with the straight-through gradient, noise on the code that depends on the document, and no
    pair loss; the preset of this name has the weights of PSH otherwise.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    hidden : sequence of int or None, default=None
        Widths of the encoder's hidden layers; None for a linear encoder where there are 2,000 features or more, and one
        layer of 1,000 where there are fewer, as then it takes several words together to tell a label.
    dropout, word_dropout, initial_scale, noise, estimator, prior :
        As for :class:`BernoulliVAE`.
    kl_weight : float or (float, float), default=0.0
        Weight lambda of the divergence from the prior.
    reconstruction_weight : float or None, default=None
        Weight of the words; None for 0.01 where half of the documents or more have labels, else 1.
    label_weight : float or (float, float), default=30.0
        Weight alpha of the classifier on the code, or its values at the start and at the end of training. A document
        with several labels has its target spread evenly over them.
    pair_weight : float, default=0.1
        Weight beta of the pair loss; where pairs are all that is told (``fit_pairs``), it rises from 0 to three
        times that.
    margin : float or None, default=0.5
        Share of the bits beyond which pairs of different labels need not go further apart; None for no end.
    pairs : {"balanced", "random"}, default="balanced"
        All pairs of a batch with both kinds counting alike, or two mini-batches paired document by document.
    pair_distance : {"expected", "sampled"}, default="expected"
        Whether a pair's distance is the exact expectation, or drawn (random pairs only).
    svm_share : float, default=0.5
        Share of linear support vector machines in a linear encoder that learns from labels: one for each bit, taught
        what the bit says of most documents with the same labels, on words weighed by naive Bayes. With hidden layers
        there are none.
    n_neighbours : int or None, default=None
        How many neighbours' words are explained beside a document's own; None for 0 where half of the documents or more
        have labels, else as for :class:`BernoulliVAE`.
    neighbour_weight, neighbour_dimensions :
        As for :class:`BernoulliVAE`.
    refinements : int, default=1
        How often codes of 128 bits are learnt first, only to find better neighbours by them.
    epochs : int or None, default=None
        Passes over the documents; None for 25, or so many more that a small corpus makes 300 steps.
    learning_rate : float or None, default=None
        Adam's step size; None for 0.085 / sqrt(n_bits) with a linear encoder, and 0.003 with hidden layers.
    batch_size, schedule, clip, validation_fraction, patience, checkpoint, callbacks, device :
        As for :class:`BernoulliVAE`.
    verbose, random_state :
        As for :class:`BernoulliVAE`.

    References
    ----------
    S. Zamani Dadaneh, S. Boluki, M. Yin, M. Zhou, X. Qian. Pairwise supervised hashing with Bernoulli variational
    auto-encoder and self-control gradient estimator. UAI 2020.

    D. Shen, Q. Su, P. Chapfuwa, W. Wang, G. Wang, L. Carin, R. Henao. NASH: toward end-to-end neural architecture for
    generative semantic hashing. ACL 2018.
    """

    needs_labels = True
    default_epochs = 25

    def __init__(
        self,
        n_bits: int = 64,
        *,
        hidden: Sequence[int] | None = None,
        dropout: float = 0.0,
        word_dropout: float = 0.2,
        initial_scale: float = 0.1,
        noise: bool | float = False,
        estimator: str = "flip",
        kl_weight: float | tuple[float, float] = 0.0,
        prior: float | ArrayLike = 0.5,
        reconstruction_weight: float | None = None,
        label_weight: float | tuple[float, float] = 30.0,
        pair_weight: float = 0.1,
        margin: float | None = 0.5,
        pairs: str = "balanced",
        pair_distance: str = "expected",
        svm_share: float = 0.5,
        n_neighbours: int | None = None,
        neighbour_weight: float = 0.9,
        neighbour_dimensions: int = 128,
        refinements: int = 1,
        epochs: int | None = None,
        batch_size: int = 100,
        learning_rate: float | None = None,
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
        self.svm_share = svm_share
        self.n_neighbours = n_neighbours
        self.neighbour_weight = neighbour_weight
        self.neighbour_dimensions = neighbour_dimensions
        self.refinements = refinements
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
        from fewbits.nn.data import AllPairsBatches, RandomPairsBatches, ReconstructionTarget

        rows = self._prepare(X)
        labels = known_labels(y, rows.shape[0])
        seed = self._seed()
        kinds = {"balanced": AllPairsBatches, "random": RandomPairsBatches}
        learnt_from, held_out = train_validation_split(rows.shape[0], self.validation_fraction, seed)
        known, taught = rows[learnt_from], labels[learnt_from]
        labelled = np.flatnonzero(np.diff(taught.indptr))
        by_labels = len(labelled) >= MOST * taught.shape[0]

        def batches(part: Any, part_labels: Any, neighbours: Neighbours) -> Any:
            words = ReconstructionTarget(part, neighbours, self.neighbour_weight)
            return kinds[self.pairs](part, words, labels=part_labels, **self._batch_options(seed))

        def learn(neighbours: Neighbours, n_bits: int, name: str) -> None:
            # A held-out document has no neighbours among the training documents: it is judged by its own words.
            looked_at = batches(rows[held_out], labels[held_out], None) if len(held_out) else None
            learnt = batches(known, taught, neighbours)
            objective = self._objective(by_labels, n_bits)
            self._train(known, learnt, objective, n_bits, seed, held_out=looked_at, labels=taught, name=name)

        learn(self._neighbours(known, by_labels, seed, learn), self.n_bits, "final")
        if self.svm_share and len(self.encoder_layers_) == 1:
            [encoder] = self.encoder_layers_
            told = known[labelled], taught[labelled]
            self.encoder_layers_ = [blend_with_svms(*encoder, *told, self.svm_share, seed)]
            self._look_at_bits(known)

    def fit_pairs(self: Self, X: Any, pairs: ArrayLike, same: ArrayLike) -> Self:
        """Learn from pairs alone: ``pairs`` (m, 2) are rows of X, ``same`` (m,) tells whether they belong together.

        No label is needed: click logs or marked duplicates are enough. All rows of X enter the words' terms.
        """
        from fewbits.nn.data import Batches, LabelledPairSampler, ReconstructionTarget

        rows = self._prepare(self._check_features(X))
        chosen, together = checked_pairs(pairs, same, rows.shape[0])
        seed = self._seed()
        options = self._batch_options(seed)
        # Marked documents are all learnt from: a pair says nothing where one of its two is held out.
        alone = np.setdiff1d(np.arange(rows.shape[0]), chosen)
        held_out = alone[train_validation_split(len(alone), self.validation_fraction, seed)[1]]
        learnt_from = np.setdiff1d(np.arange(rows.shape[0]), held_out)
        known, looked_at = rows[learnt_from], rows[held_out]
        marked = np.searchsorted(learnt_from, chosen)  # rows are numbered anew

        def learn(neighbours: Neighbours, n_bits: int, name: str) -> None:
            words = ReconstructionTarget(known, neighbours, self.neighbour_weight)
            batches = LabelledPairSampler(known, words, marked, together, **options)
            judged = Batches(looked_at, ReconstructionTarget(looked_at), **options) if len(held_out) else None
            # From the start, pairs alone would make all documents alike: at first all are far enough apart, and only
            # those that belong together count. So the words spread the codes before pairs come to their full weight.
            objective = self._objective(by_labels=False, n_bits=n_bits, pairs_alone=True)
            told = (marked, together)
            self._train(known, batches, objective, n_bits, seed, held_out=judged, marked=told, name=name)

        learn(self._neighbours(known, False, seed, learn, marked[together]), self.n_bits, "final")
        return self

    def _neighbours(
        self,
        rows: Any,
        by_labels: bool,
        seed: int,
        learn: Callable[[Neighbours, int, str], None],
        together: NDArray[np.int64] | None = None,
    ) -> Neighbours:
        """Neighbours make up for labels that are not there."""
        usual = 0 if by_labels else default_neighbors(rows)
        wanted = usual if self.n_neighbours is None else self.n_neighbours
        return self._find_neighbours(rows, wanted, self.refinements, seed, learn, together)

    def _batch_options(self, seed: int) -> dict[str, Any]:
        return {"batch_size": self.batch_size, "seed": seed, "device": self.device}

    def _depth_and_speed(self, n_features: int, n_bits: int) -> tuple[tuple[int, ...], float]:
        hidden = default_hidden(self.hidden, n_features)
        # the more bits take part in a score, the further it goes when all of them make a step
        usual = 0.003 if hidden else 0.085 / n_bits**0.5
        return hidden, usual if self.learning_rate is None else self.learning_rate

    def _prepare(self, X: Any) -> Any:
        need_torch()
        for name, value, allowed in (("pairs", self.pairs, PAIRS), ("pair_distance", self.pair_distance, DISTANCES)):
            if value not in allowed:
                raise ParameterError(f"{name} is unknown", allowed=", ".join(allowed), got=repr(value))
        as_prior(self.prior, self.n_bits, self.n_bits)
        return self._check_rows(X)

    def _objective(self, by_labels: bool, n_bits: int, *, pairs_alone: bool = False) -> Objective:
        from fewbits.nn.gradient_estimators import make_estimator
        from fewbits.nn.losses import Objective, PairLoss, Weights

        usual = 0.01 if by_labels else 1.0
        weights = Weights(
            reconstruction=usual if self.reconstruction_weight is None else self.reconstruction_weight,
            kl=as_range(self.kl_weight),
            prior=as_prior(self.prior, self.n_bits, n_bits),
            label=as_range(self.label_weight),
            pair=(0.0, PAIRS_ALONE * self.pair_weight) if pairs_alone else as_range(self.pair_weight),
        )
        sampled = self.pair_distance == "sampled"
        return Objective(weights, make_estimator(self.estimator), PairLoss(self.margin), sample_pairs=sampled)


def checked_pairs(pairs: ArrayLike, same: ArrayLike, rows: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Pairs (m, 2) of so many rows, and whether each belongs together (m,)."""
    chosen, together = np.asarray(pairs), np.asarray(same)
    if chosen.ndim != 2 or chosen.shape[1] != 2 or chosen.dtype.kind not in "iu" or together.shape != chosen.shape[:1]:
        shapes = f"{chosen.shape} of {chosen.dtype}, {together.shape}"
        raise DataError("pairs and same do not fit", allowed="(m, 2) whole numbers and (m,)", got=shapes)
    if not len(chosen) or chosen.min() < 0 or chosen.max() >= rows:
        raise DataError("pairs are rows of X", allowed=f"0 to {rows - 1}, one pair or more")
    if not np.isin(together, (0, 1)).all():
        odd = together[~np.isin(together, (0, 1))][0]
        raise DataError("same tells whether a pair belongs together", allowed="True or False, 1 or 0", got=odd)
    return chosen.astype(np.int64), together.astype(bool)
