"""Texts and edited copies of them: near-duplicates with a known answer."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

EDITED = 200  # texts per kind of edit
MIN_WORDS = 20  # of a text that is edited


def mixed_sentences(texts: Sequence[str], size: int) -> Iterator[str]:
    """Yield texts of seven sentences drawn from other texts; every twentieth is a copy with one word in 20 changed."""
    generator = np.random.default_rng(5)
    pieces = (re.split(r"(?<=[.?!])\s+", text.replace("\n", " ")) for text in texts)
    sentences = [sentence for piece in pieces for sentence in piece if len(sentence) > 30]
    recent: list[str] = []
    for number in range(size):
        if number > 100 and generator.random() < 0.05:
            words = recent[generator.integers(len(recent))].split()
            for _ in range(max(1, len(words) // 20)):
                words[generator.integers(len(words))] = sentences[generator.integers(len(sentences))].split()[0]
            yield " ".join(words)
            continue
        text = " ".join(sentences[place] for place in generator.integers(0, len(sentences), 7))
        if len(recent) < 5000:
            recent.append(text)
        else:
            recent[generator.integers(5000)] = text
        yield text


def with_edits(texts: list[str]) -> tuple[list[str], list[tuple[str, int, bool]], list[int]]:
    """Append edited copies; return all texts, the number of each kind of edit, and the originals of the copies."""
    generator = random.Random(0)
    long = [row for row, text in enumerate(texts) if len(text.split()) >= MIN_WORDS]
    numbered = [row for row in long if re.search(r"\b\d+\b", texts[row])]
    pool = [word for row in generator.sample(long, min(len(long), 1_000)) for word in texts[row].split()]
    pool = [word for word in pool if word.isalpha()]
    edited, counts, originals = list(texts), [], []
    for kind, edit in KINDS.items():
        changes_number = kind == NUMBER
        chosen = generator.sample(numbered if changes_number else long, EDITED if len(numbered) > EDITED else 20)
        edited += [edit(texts[row], generator, pool) for row in chosen]
        originals += chosen
        counts.append((kind, len(chosen), not changes_number))
    return edited, counts, originals


def _change_words(text: str, generator: random.Random, pool: Sequence[str], share: float, what: tuple[str, ...]) -> str:
    """Drop, insert or replace a share of the words; words with digits stay."""
    words = text.split()
    free = [place for place, word in enumerate(words) if not re.search(r"\d", word)]
    for place in generator.sample(free, max(1, int(share * len(words))) if len(free) > share * len(words) else 0):
        new = generator.choice(pool)
        words[place] = {"drop": "", "insert": f"{words[place]} {new}", "replace": new}[generator.choice(what)]
    return " ".join(word for word in words if word)


def _edit_words(share: float, *what: str) -> Callable[[str, random.Random, Sequence[str]], str]:
    return lambda text, generator, pool: _change_words(text, generator, pool, share, what)


def _change_number(text: str, generator: random.Random, _: Sequence[str]) -> str:
    number = generator.choice(list(re.finditer(r"\b\d+\b", text)))
    changed = str((int(number[0][-1]) + generator.randint(1, 9)) % 10)
    return text[: number.end() - 1] + changed + text[number.end() :]


def _reorder(text: str, generator: random.Random, _: Sequence[str]) -> str:
    sentences = re.split(r"(?<=[.?!])\s+", text)
    generator.shuffle(sentences)
    return " ".join(sentences)


NUMBER = "one digit of a number changed"
KINDS: dict[str, Callable[[str, random.Random, Sequence[str]], str]] = {
    "case": lambda text, *_: text.upper(),
    "punctuation at the ends of words removed": lambda text, *_: re.sub(r"[.,;:!?\"')]+(?=\s|$)", "", text),
    "white space": lambda text, *_: "\n\n  ".join(text.split(" ")),
    "sentences reordered": _reorder,
    "5% of words dropped": _edit_words(0.05, "drop"),
    "5% of words inserted": _edit_words(0.05, "insert"),
    "5% of words replaced": _edit_words(0.05, "replace"),
    "10% of words dropped, inserted or replaced": _edit_words(0.1, "drop", "insert", "replace"),
    "20% of words dropped, inserted or replaced": _edit_words(0.2, "drop", "insert", "replace"),
    NUMBER: _change_number,
}
