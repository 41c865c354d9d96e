"""Quality of codes: retrieval metrics that are exact under ties, and how well the bits are used."""

from fewbits.metrics.bit_usage import bit_balance, bit_entropy, distinct_share, unique_code_ratio
from fewbits.metrics.retrieval import (
    asymmetric_precision_at_k,
    asymmetric_precision_at_k_per_query,
    encoded_precision,
    inner_product_precision_at_k,
    mean_average_precision,
    neighbour_recall,
    precision_at_k,
    precision_at_k_per_query,
    random_floor,
    recall_within_radius,
)

__all__ = [
    "asymmetric_precision_at_k",
    "asymmetric_precision_at_k_per_query",
    "bit_balance",
    "bit_entropy",
    "distinct_share",
    "encoded_precision",
    "inner_product_precision_at_k",
    "mean_average_precision",
    "neighbour_recall",
    "precision_at_k",
    "precision_at_k_per_query",
    "random_floor",
    "recall_within_radius",
    "unique_code_ratio",
]
