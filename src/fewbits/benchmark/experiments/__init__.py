"""Experiments: measurements other than the precision of runs, each with facts in JSON files and a page."""

from typing import Any

from fewbits.benchmark.experiments.base import Experiment, markdown_table
from fewbits.benchmark.experiments.duplicate_search import DuplicateSearch
from fewbits.benchmark.experiments.estimators import EstimatorComparison
from fewbits.benchmark.experiments.known_items import KnownItemSearch
from fewbits.benchmark.experiments.latent import LatentSpace
from fewbits.benchmark.experiments.nested import NestedComparison
from fewbits.benchmark.experiments.search_quality import SearchQuality
from fewbits.benchmark.experiments.service import ServiceLoad
from fewbits.benchmark.experiments.speed import TrainingTime
from fewbits.benchmark.experiments.supervision import SupervisionComparison

EXPERIMENTS: tuple[type[Experiment[Any]], ...] = (
    DuplicateSearch,
    EstimatorComparison,
    KnownItemSearch,
    LatentSpace,
    NestedComparison,
    SearchQuality,
    ServiceLoad,
    TrainingTime,
    SupervisionComparison,
)

__all__ = [
    "EXPERIMENTS",
    "DuplicateSearch",
    "EstimatorComparison",
    "Experiment",
    "KnownItemSearch",
    "LatentSpace",
    "NestedComparison",
    "SearchQuality",
    "ServiceLoad",
    "SupervisionComparison",
    "TrainingTime",
    "markdown_table",
]
