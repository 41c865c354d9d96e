"""Drift: whether new documents still resemble those of the fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fewbits.codes import n_bytes, unpack
from fewbits.features import TextVectorizer
from fewbits.hashers.registry import find_method
from fewbits.search.encoder import Encoder, Model
from fewbits.search.store.reader import Reader

SAMPLED_TEXTS = 10_000  # for the share of unknown words
MIN_NEW_DOCUMENTS = 30  # fewer are too few to measure drift
MAX_UNKNOWN_INCREASE = 0.1  # share of words
MAX_UNSEEN = 0.05  # share of words, rare ones and numbers, that is not worth a remark
MAX_BIT_SHIFT = 0.1  # share of documents, mean over bits
DRIFT_TITLES = {  # in tables, where the names of the fields would be unclear
    "new_documents": "new documents",
    "unknown_words_learnt": "share of unknown words, training documents",
    "unknown_words_new": "share of unknown words, new documents",
    "bit_shift": "mean change in the share of ones per bit",
    "bit_shift_by_chance": "change expected by chance",
}
# Facts that describe leaves out.
NOT_SHOWN = ("bit_balance", "unknown_words", "notes", "documents_when_learnt", "same_label")


@dataclass(frozen=True)
class Drift:
    """How documents added or updated since the fit differ from those of the fit."""

    new_documents: int
    unknown_words_learnt: float | None  # share of words outside the vocabulary at the fit; None for embeddings
    unknown_words_new: float | None
    bit_shift: float  # change in the share of ones per bit, mean over bits
    bit_shift_by_chance: float  # expected from a random sample of this size
    retrain: bool
    advice: str


def measure_drift(model: Model, reader: Reader) -> Drift:
    """Compare new documents with those of the fit."""
    count = reader.count_new()
    _, packed = reader.codes(model.hasher.n_bits, only_new=True)
    bits = unpack(packed, model.hasher.n_bits)
    balance = np.asarray(model.info.bit_balance)
    shift = float(np.abs(bits.mean(axis=0) - balance).mean()) if len(bits) else 0.0
    chance = float(np.sqrt(2 / np.pi * balance * (1 - balance) / len(bits)).mean()) if len(bits) else 0.0
    before = model.info.unknown_words
    unknown = None
    if before is not None and count:
        unknown = round(unknown_share(model, reader.texts(are_new=True, limit=SAMPLED_TEXTS)), 4)
    advice, retrain = _advise(count, model.info.documents_when_learnt, before, unknown, shift - chance)
    return Drift(count, before, unknown, round(shift, 4), round(chance, 4), retrain, advice)


def unknown_share(encoder: Encoder, texts: list[str]) -> float:
    """Compute the share of words that are not in the vocabulary; 0 for embeddings."""
    return float(encoder.features.unknown_share(texts)) if isinstance(encoder.features, TextVectorizer) else 0.0


def unseen_share(encoder: Encoder, texts: list[str]) -> float:
    """Compute the share of written words, numbers among them, that codes do not see; 0 for embeddings."""
    return float(encoder.features.unseen_share(texts)) if isinstance(encoder.features, TextVectorizer) else 0.0


def unseen_advice(facts: Mapping[str, Any]) -> str | None:
    """Return what codes do not see of the documents of a fit, and what to do; None if it is little."""
    count, unseen = facts["documents_without_known_words"], facts.get("unseen_words") or 0.0
    if not count and unseen <= MAX_UNSEEN:
        return None
    return (
        f"Codes do not see {unseen:.1%} of the words, and no word of {count:,} of {facts['documents']:,} documents."
        " Searches find these by words alone. To let codes see more, fit again with a larger --max-features, or with"
        " --token-pattern unicode for other scripts and numbers."
    )


def describe(model: Model, reader: Reader, *, documents_with_code: int) -> dict[str, Any]:
    """Return the facts about an engine, with the drift of its documents."""
    count, n_bits = reader.count(), model.hasher.n_bits
    facts = {name: value for name, value in model.info.as_json().items() if name not in NOT_SHOWN}
    return {
        "documents": count,
        "documents_without_known_words": count - documents_with_code,
        "bits": n_bits,
        "bytes_per_document": n_bytes(n_bits),
        "metadata": reader.fields(),
        "features": model.kind,
        "n_features": model.features.n_features,
        "setting": find_method(model.info.method).setting,
        **facts,
        "drift": asdict(measure_drift(model, reader)),
    }


def _advise(
    count: int, documents_at_fit: int, before: float | None, now: float | None, shift: float
) -> tuple[str, bool]:
    """Return advice on retraining, and whether it is advised."""
    if not count:
        return "No documents have been added or updated since training.", False
    if count < MIN_NEW_DOCUMENTS:
        return f"Too few new documents to measure drift (fewer than {MIN_NEW_DOCUMENTS}).", False
    reasons = []
    if before is not None and now is not None and now - before > MAX_UNKNOWN_INCREASE:
        reasons.append(f"{now:.0%} of the words of new documents are unknown, compared with {before:.0%} in training")
    if shift > MAX_BIT_SHIFT:
        reasons.append(f"the share of ones per bit has changed by {shift:.2f} on average, beyond chance")
    if count > documents_at_fit:
        reasons.append("there are more new documents than training documents")
    if reasons:
        return f"Retraining is recommended (fewbits fit): {'; '.join(reasons)}.", True
    return "New documents resemble the training documents: retraining is not needed.", False
