"""Pairwise supervised hashing: a Bernoulli VAE whose codes also predict labels and bring similar documents together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewbits.data.labels import check_labels, checked_pairs
from fewbits.errors import ParameterError
from fewbits.hashers._nested import NestedHasher
from fewbits.hashers._parameters import as_prior, as_range, check_choice, default_neighbors, has_few_words
from fewbits.hashers._posterior import fit_posterior, has_many_labels, posterior_weight
from fewbits.hashers._svm import blend_with_svms
from fewbits.hashers._training import Neighbors, TrainedNetworks, train_validation_split, train_with_refinements
from fewbits.hashers.base import Posterior

if TYPE_CHECKING:
    from fewbits.nn.losses import Objective

PAIRS = ("balanced", "random")
DISTANCES = ("expected", "sampled")
MOSTLY_LABELLED = 0.5  # share of labelled documents from which on training relies on the labels alone
NEIGHBORHOOD_WEIGHT = 30.0
LONG_CODE = 32  # bits from which on NB-SVMs help beside the class posterior
POSTERIOR_ARRAYS = ("posterior_weights", "posterior_bias", "posterior_codewords")
UNLABELLED_PAIR_FACTOR = 3.0  # of pair_weight, where pairs are the only supervision
LEGACY_VALUES = {"posterior_weight": 0, "posterior_sharpness": 1.0, "neighborhood_weight": 0, "nested": False}
Self = TypeVar("Self", bound="PairwiseHasher")


class PairwiseHasher(NestedHasher):
    """Learn codes that predict words and labels, and bring documents with a common label together (eq:sph).

    The paper's PSH draws two mini-batches, pairs them document by document and samples every term with the ARM
    (PSH-ARM) or Gumbel-Softmax (PSH-GS) gradient. The defaults here use the flip gradient, a linear encoder, and the
    exact expectation of the distance over all pairs of a batch. Documents without a label enter only the reconstruction
    of words. A linear encoder cannot compute which of many class scores is the largest, so beside it stands a class
    posterior: probabilities of the classes, times a codeword per class, are added to the encoder's logits.

    NASH-DN-S is this model with the straight-through gradient, data-dependent noise on the code, and no pair loss; its
    preset has the weights of PSH otherwise.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    hidden : sequence of int or None, default=None
        Widths of the encoder's hidden layers. None for a linear encoder with 2,000 features or more, and one layer of
        1,000 with fewer, where it takes several words together to predict a label.
    dropout, word_dropout, initial_scale, noise, estimator, prior :
        As for :class:`BernoulliVAE`.
    kl_weight : float or (float, float), default=0.0
        Weight lambda of the divergence from the prior.
    reconstruction_weight : float or None, default=None
        Weight of the words' reconstruction. None for 0.01 if at least half of the documents have labels, else 1.
    label_weight : float or (float, float), default=30.0
        Weight alpha of the classifier on the code, or its values at the start and at the end of training. The target of
        a document with several labels is spread evenly over them.
    pair_weight : float, default=0.1
        Weight beta of the pair loss. With pairs as the only supervision (``fit_pairs``), it rises from 0 to three times
        this value.
    margin : float or None, default=0.5
        Share of the bits beyond which pairs with different labels are not pushed further apart; None for no limit.
    neighborhood_weight : float or None, default=None
        Weight of the neighborhood loss: how improbable it is that the nearest document of a batch shares a label. None
        is 30 with hidden layers, 1.5 or more labels per labelled document, half of them labelled or more; otherwise 0.
    pairs : {"balanced", "random"}, default="balanced"
        All pairs of a batch with equal total weight of both kinds, or two mini-batches paired document by document.
    pair_distance : {"expected", "sampled"}, default="expected"
        Whether a pair's distance is its exact expectation or sampled (random pairs only).
    svm_share : float, default=0.5
        Share of per-bit NB-SVMs in a linear encoder trained on labels: linear support vector machines on features
        weighted by naive Bayes, fitted to each bit's majority value per label. Not used with hidden layers. Beside a
        class posterior half of this share is used, from 32 bits on, and no NB-SVMs with fewer bits.
    posterior_weight : float or None, default=None
        Weight of the class posterior, relative to logits of mean size 1; 0 for none. None for 4 (8 / n_bits)^2, but at
        least 0.2; and for 0 with hidden layers or 1.5 labels or more per labelled document. The posterior is only used
        if at least half of the documents have labels, with 2 to 200 classes.
    posterior_sharpness : float or None, default=None
        Factor of the class scores, beside the scale with the best likelihood. None for 4 with up to 8 bits, where a
        mixture of codewords is often the codeword of yet another class, and for 1 with more.
    nested : bool, default=False
        As for :class:`BernoulliVAE`. Each bit has the weights of a code of the shortest length that contains it.
    n_neighbours : int or None, default=None
        Number of neighbors whose words are predicted beside a document's own. None for 0 if at least half of the
        documents have labels, else as for :class:`BernoulliVAE`.
    neighbour_weight, neighbour_dimensions :
        As for :class:`BernoulliVAE`.
    refinements : int, default=1
        Rounds of training codes of 128 bits whose only use is to find better neighbors.
    epochs : int or None, default=None
        Passes over the documents. None for 25, or more if a small corpus would make fewer than 300 steps.
    learning_rate : float or None, default=None
        Adam's learning rate. None for 0.085 / sqrt(n_bits) with a linear encoder, and 0.003 with hidden layers.
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
    legacy_values: ClassVar[Mapping[str, Any]] = LEGACY_VALUES
    posterior_: Posterior | None

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
        neighborhood_weight: float | None = None,
        margin: float | None = 0.5,
        pairs: str = "balanced",
        pair_distance: str = "expected",
        svm_share: float = 0.5,
        posterior_weight: float | None = None,
        posterior_sharpness: float | None = None,
        nested: bool = False,
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
        self.neighborhood_weight = neighborhood_weight
        self.margin = margin
        self.pairs = pairs
        self.pair_distance = pair_distance
        self.svm_share = svm_share
        self.posterior_weight = posterior_weight
        self.posterior_sharpness = posterior_sharpness
        self.nested = nested
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
        rows = self._prepare(X)
        labels = check_labels(y, rows.shape[0])
        seed = self._seed()
        train_rows, validation_rows = train_validation_split(rows.shape[0], self.validation_fraction, seed)
        X_train, y_train = rows[train_rows], labels[train_rows]
        X_val, y_val = rows[validation_rows], labels[validation_rows]
        labelled = np.flatnonzero(np.diff(y_train.indptr))
        mostly_labelled = len(labelled) >= MOSTLY_LABELLED * y_train.shape[0]
        neighborhood = self._neighborhood_weight(y_train[labelled], mostly_labelled)

        def train(neighbors: Neighbors, n_bits: int, name: str) -> TrainedNetworks:
            from fewbits.nn.data import AllPairsBatches, RandomPairsBatches, ReconstructionTarget

            kind = {"balanced": AllPairsBatches, "random": RandomPairsBatches}[self.pairs]
            options = self._batch_options(seed)
            words = ReconstructionTarget(X_train, neighbors, self.neighbour_weight)
            batches = kind(X_train, words, labels=y_train, **options)
            # A validation document has no neighbors among the training documents: only its own words are predicted.
            validation = None
            if X_val.shape[0]:
                validation = kind(X_val, ReconstructionTarget(X_val), labels=y_val, **options)
            model = self._bernoulli_networks(batches, n_bits, prefixes=self._prefixes_of_round(n_bits, name))
            objective = self._objective(mostly_labelled, n_bits, neighborhood=neighborhood)
            return self._train(model, objective, batches, n_bits=n_bits, name=name, validation=validation)

        trained = self._train_rounds(X_train, train, seed, mostly_labelled=mostly_labelled)
        X_labelled, y_labelled = X_train[labelled], y_train[labelled]
        lengths = self._length_per_bit()
        weight: NDArray[np.float64] = np.zeros(len(lengths))
        if mostly_labelled:
            given, is_linear = self.posterior_weight, len(trained.encoder_layers) == 1
            weight = np.array([posterior_weight(given, int(n), y_labelled, is_linear=is_linear) for n in lengths])
        shares = self._svm_shares(lengths, beside_posterior=bool(weight.any()))
        if shares.any() and len(trained.encoder_layers) == 1:
            [(weights, bias)] = trained.encoder_layers
            blended = blend_with_svms(weights, bias, X_labelled, y_labelled, shares, seed)
            trained = replace(trained, encoder_layers=[blended])
        self.posterior_ = None
        if weight.any():
            trained, logits = trained.with_logits_of_size_1(X_labelled)
            shortest, sharpness = int(lengths[0]), self.posterior_sharpness
            self.posterior_ = fit_posterior(X_labelled, y_labelled, logits, weight, seed, shortest, sharpness)
        self._finalize(trained, X_train)

    def _svm_shares(self, lengths: NDArray[np.int64], *, beside_posterior: bool) -> NDArray[np.float64]:
        """Return the share of the NB-SVM in each bit, of codes of the given lengths."""
        factors = np.where(lengths >= LONG_CODE, 0.5, 0.0) if beside_posterior else np.ones(len(lengths))
        return self.svm_share * factors

    def _arrays_by_name(self) -> dict[str, NDArray[Any]]:
        arrays = super()._arrays_by_name()
        if self.posterior_ is not None:
            arrays |= dict(zip(POSTERIOR_ARRAYS, astuple(self.posterior_), strict=True))
        return arrays

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        has_posterior = POSTERIOR_ARRAYS[0] in arrays
        self.posterior_ = Posterior(*(arrays[name] for name in POSTERIOR_ARRAYS)) if has_posterior else None

    def fit_pairs(self: Self, X: Any, pairs: ArrayLike, same: ArrayLike) -> Self:
        """Fit to pairs alone: ``pairs`` (m, 2) are rows of X, ``same`` (m,) says whether the two belong together.

        No label is needed: click logs or known duplicates suffice. All rows of X enter the reconstruction of words.
        """
        rows = self._prepare(self._check_features(X))
        pair_rows, is_similar = checked_pairs(pairs, same, rows.shape[0])
        seed = self._seed()
        # Documents in pairs are always trained on: a pair carries no information if one of its two is left out.
        unpaired = np.setdiff1d(np.arange(rows.shape[0]), pair_rows)
        validation_rows = unpaired[train_validation_split(len(unpaired), self.validation_fraction, seed)[1]]
        train_rows = np.setdiff1d(np.arange(rows.shape[0]), validation_rows)
        X_train, X_val = rows[train_rows], rows[validation_rows]
        train_pairs = np.searchsorted(train_rows, pair_rows)  # as rows of X_train

        def train(neighbors: Neighbors, n_bits: int, name: str) -> TrainedNetworks:
            from fewbits.nn.data import Batches, LabelledPairSampler, ReconstructionTarget

            options = self._batch_options(seed)
            words = ReconstructionTarget(X_train, neighbors, self.neighbour_weight)
            batches = LabelledPairSampler(X_train, words, train_pairs, is_similar, **options)
            validation = Batches(X_val, ReconstructionTarget(X_val), **options) if X_val.shape[0] else None
            model = self._bernoulli_networks(batches, n_bits, prefixes=self._prefixes_of_round(n_bits, name))
            # At full weight from the start, pairs alone would give all documents one code: at first all are far enough
            # apart, so only similar pairs have a loss. The words spread the codes before the pairs' weight has risen.
            objective = self._objective(False, n_bits, pairs_only=True)
            known = (train_pairs, is_similar)
            return self._train(model, objective, batches, n_bits=n_bits, name=name, validation=validation, pairs=known)

        similar_pairs = train_pairs[is_similar]
        trained = self._train_rounds(X_train, train, seed, mostly_labelled=False, similar_pairs=similar_pairs)
        self.posterior_ = None
        self._finalize(trained, X_train)
        return self

    def _train_rounds(
        self,
        X_train: Any,
        train: Callable[[Neighbors, int, str], TrainedNetworks],
        seed: int,
        *,
        mostly_labelled: bool,
        similar_pairs: NDArray[np.int64] | None = None,
    ) -> TrainedNetworks:
        """Train with refinements; by default neighbors are used only if most documents have no label."""
        default = 0 if mostly_labelled else default_neighbors(X_train)
        return train_with_refinements(
            X_train,
            train,
            n_bits=self.n_bits,
            n_neighbors=default if self.n_neighbours is None else self.n_neighbours,
            dimensions=X_train.shape[1] if has_few_words(X_train) else self.neighbour_dimensions,
            refinements=self.refinements,
            seed=seed,
            similar_pairs=similar_pairs,
        )

    def _neighborhood_weight(self, labels: Any, mostly_labelled: bool) -> float:
        if self.neighborhood_weight is not None:
            return self.neighborhood_weight
        is_tried = mostly_labelled and has_many_labels(labels) and self._architecture(self.n_features_in_)
        return NEIGHBORHOOD_WEIGHT if is_tried and self.pairs == "balanced" else 0.0

    def _learning_rate(self, n_features: int, n_bits: int) -> float:
        # all bits of a score move in one step, so with more bits each one may move less
        default = 0.003 if self._architecture(n_features) else 0.085 / n_bits**0.5
        return default if self.learning_rate is None else self.learning_rate

    def _prepare(self, X: Any) -> Any:
        """Check the parameters and return the rows to train on."""
        check_choice("pairs", self.pairs, PAIRS)
        check_choice("pair_distance", self.pair_distance, DISTANCES)
        as_prior(self.prior, self.n_bits, self.n_bits)
        if self.neighborhood_weight and self.pairs != "balanced":
            allowed = "pairs='balanced', or neighborhood_weight=0"
            raise ParameterError("the neighborhood loss needs all pairs of a batch", allowed=allowed, got=self.pairs)
        return self._check_rows(X)

    def _objective(
        self, mostly_labelled: bool, n_bits: int, *, neighborhood: float = 0.0, pairs_only: bool = False
    ) -> Objective:
        from fewbits.nn.gradient_estimators import make_estimator
        from fewbits.nn.losses import Objective, PairLoss, Weights

        default = 0.01 if mostly_labelled else 1.0
        rising = (0.0, UNLABELLED_PAIR_FACTOR * self.pair_weight)
        weights = Weights(
            reconstruction=default if self.reconstruction_weight is None else self.reconstruction_weight,
            kl=as_range(self.kl_weight),
            prior=as_prior(self.prior, self.n_bits, n_bits),
            label=as_range(self.label_weight),
            pair=rising if pairs_only else as_range(self.pair_weight),
            neighborhood=neighborhood,
        )
        sampled = self.pair_distance == "sampled"
        return Objective(weights, make_estimator(self.estimator), PairLoss(self.margin), sample_pairs=sampled)
