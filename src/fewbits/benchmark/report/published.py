"""Figures published in the literature with their sources, and notes on how far ours can be compared with them."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import lru_cache
from importlib.resources import files
from typing import Any

from fewbits.hashers.registry import METHODS, make_hasher

PAPER = "PSH"  # its tables contain the figures of the other methods, too
PAPER_ALPHA = (0.01, 0.1)
CHOSEN_WITH_LABELS = (
    f"{METHODS['bernoulli-vae'].title} is trained without labels, but its defaults were chosen by means of the"
    " labels of the validation parts (docs/defaults.md)."
)
DIFFERENT_FEATURES = {  # data sets on which only the order of the methods can be compared
    "tmc": "Our version of the data set has 500 binary features; the published one has 20,000 word frequencies."
    " Therefore only the order of the methods can be compared."
}


def published_figures() -> list[dict[str, Any]]:
    """Return all published figures, each with its source and table."""
    figures: list[dict[str, Any]] = _read_json("published.json")
    return figures


def published_words() -> dict[str, dict[str, list[str]]]:
    """Return the published nearest words, by the title of the method and the word."""
    words: dict[str, dict[str, list[str]]] = _read_json("published-words.json")["words"]
    return words


def published_precision() -> dict[tuple[str, str], dict[int, float]]:
    """Return the published precision at 100 per code length, by method and data set, without the ablations."""
    precision: defaultdict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    by_title = {method.title: name for name, method in METHODS.items()}
    for figure in published_figures():
        is_in_tables = figure["source"].startswith(PAPER) and "beta" not in figure and "kl_weight" not in figure
        if is_in_tables and figure["method"] in by_title:
            precision[by_title[figure["method"]], figure["dataset"]][figure["bits"]] = figure["value"]
    return dict(precision)


def paper_presets() -> str:
    """Return a note on where our presets of the paper's supervised systems differ from it, or fill gaps in it."""
    psh, nash = (make_hasher(name, 8).get_params() for name in ("psh-arm", "nash-dn-s"))
    (first, last), (low, high) = psh["label_weight"], PAPER_ALPHA
    return (
        "PSH-ARM, PSH-GS and NASH-DN-S differ from the paper in alpha, the weight of the classifier: it"
        f" increases from {first:g} to {last:g}, which was tuned on the validation part of ng20 at 32 bits. With the"
        f" paper's {low:g} to {high:g}, the term of the classifier is negligible compared with the reconstruction,"
        f" because all terms are means over documents. Only the pair loss, with the weight beta ="
        f" {psh['pair_weight']:g}, is a mean over pairs."
        f" The paper states neither the number of epochs ({psh['epochs']} here, {nash['epochs']} for NASH-DN-S) nor the"
        f" batch size ({psh['batch_size']} here)."
    )


@lru_cache
def _read_json(name: str) -> Any:
    return json.loads(files("fewbits.benchmark").joinpath(name).read_text(encoding="utf-8"))
