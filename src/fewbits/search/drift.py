"""Whether new documents are still like those that the codes were learnt from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbits.codes import Bits
from fewbits.search.encoder import Model
from fewbits.search.store.documents import Reader

LOOKED_AT = 10_000  # texts whose words are counted
FEWEST = 30  # documents that can say something
MORE_UNKNOWN = 0.1  # of the words
MORE_SHIFT = 0.1  # of the documents, for a bit on average


@dataclass(frozen=True)
class Drift:
    """How documents that came since the codes were learnt differ from those they were learnt from."""

    new_documents: int
    unknown_words_learnt: float | None  # share of the words that the vocabulary leaves out; None for embeddings
    unknown_words_new: float | None
    bit_shift: float  # how much the share of ones of a bit has moved, on average
    bit_shift_by_chance: float  # what so few documents would show anyway
    retrain: bool
    advice: str


def measure_drift(reader: Reader, model: Model) -> Drift:
    """Compare new documents with those that were learnt from."""
    count = reader.count_new()
    _, packed = reader.codes(model.hasher.n_bits, only_new=True)
    bits: Bits = np.unpackbits(packed, axis=1, count=model.hasher.n_bits, bitorder="big")
    learnt = np.asarray(model.facts["bit_balance"])
    shift = float(np.abs(bits.mean(axis=0) - learnt).mean()) if len(bits) else 0.0
    chance = float(np.sqrt(2 / np.pi * learnt * (1 - learnt) / len(bits)).mean()) if len(bits) else 0.0
    before = model.facts.get("unknown_words")
    unknown = None
    if before is not None and count:
        unknown = round(unknown_share(model, reader.texts(are_new=True, limit=LOOKED_AT)), 4)
    advice, retrain = _advise(count, model.documents_when_learnt, before, unknown, shift - chance)
    return Drift(count, before, unknown, round(shift, 4), round(chance, 4), retrain, advice)


def unknown_share(model: Model, texts: list[str]) -> float:
    """Share of the words of texts that the model does not know."""
    return float(model.features.unknown_share(texts)) if model.takes_text else 0.0


def _advise(count: int, there: int, before: float | None, now: float | None, moved: float) -> tuple[str, bool]:
    if not count:
        return "Nothing was added since the codes were learnt.", False
    if count < FEWEST:
        return f"Too few new documents to tell (fewer than {FEWEST}).", False
    reasons = []
    if before is not None and now is not None and now - before > MORE_UNKNOWN:
        reasons.append(f"{now:.0%} of the words of new documents are unknown, against {before:.0%} in training")
    if moved > MORE_SHIFT:
        reasons.append(f"a bit's share of ones has moved by {moved:.2f} on average beyond chance")
    if count > there:
        reasons.append("more documents are new than were there when the codes were learnt")
    if reasons:
        return f"Learning anew is worth it (fewbits fit): {'; '.join(reasons)}.", True
    return "New documents are like those that were learnt from: no need to learn anew.", False
