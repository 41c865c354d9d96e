"""How good codes are: retrieval with exact ties, and the use of the bits."""

from fewbits.metrics.bit_usage import bit_balance, bit_entropy, distinct_share
from fewbits.metrics.retrieval import (
    mean_average_precision,
    neighbour_recall,
    precision_at_k,
    precision_at_k_per_query,
    random_floor,
    recall_within_radius,
)

__all__ = [
    "bit_balance",
    "bit_entropy",
    "distinct_share",
    "mean_average_precision",
    "neighbour_recall",
    "precision_at_k",
    "precision_at_k_per_query",
    "random_floor",
    "recall_within_radius",
]
