from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from fewbits import Document, SearchEngine
from fewbits.codes import pack, unpack
from fewbits.errors import ParameterError
from fewbits.index.multi_index import near_groups
from fewbits.search import without_duplicates


def groups_by_brute_force(bits: NDArray[np.uint8], radius: int) -> list[int]:
    distances = (bits[:, None] != bits[None]).sum(axis=2)
    _, labels = connected_components(distances <= radius, directed=False)
    order = {label: number for number, label in enumerate(dict.fromkeys(labels.tolist()))}
    return [order[label] for label in labels.tolist()]


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_bits=st.integers(1, 200),
    count=st.integers(0, 120),
    radius=st.integers(0, 8),
    noise=st.sampled_from([0.0, 0.01, 0.03, 0.1, 0.5]),
)
def test_groups_equal_those_of_brute_force(seed: int, n_bits: int, count: int, radius: int, noise: float) -> None:
    generator = np.random.default_rng(seed)
    centres = generator.integers(0, 2, (max(1, count // 4), n_bits), dtype=np.uint8)
    bits = centres[generator.integers(0, len(centres), count)]
    bits ^= (generator.random(bits.shape) < noise).astype(np.uint8)
    radius = min(radius, n_bits)
    packed = pack(bits) if count else np.zeros((0, -(-n_bits // 8)), np.uint8)
    assert near_groups(packed, n_bits, radius).tolist() == groups_by_brute_force(bits, radius)


@pytest.mark.parametrize("kind", ["spread", "crowded", "few varying bits"])
def test_groups_of_thousands_of_codes_equal_those_of_brute_force(kind: str) -> None:
    generator = np.random.default_rng(0)
    share = {
        "spread": np.full(64, 0.5),
        "crowded": np.full(64, 0.06),
        "few varying bits": np.r_[np.full(14, 0.5), [0.0] * 50],
    }
    bits = (generator.random((4_000, 64)) < share[kind]).astype(np.uint8)
    signs = 2.0 * bits.astype(np.float32) - 1
    near = np.round((64 - signs @ signs.T) / 2) <= 3
    _, labels = connected_components(near, directed=False)
    order = {label: number for number, label in enumerate(dict.fromkeys(labels.tolist()))}
    assert near_groups(pack(bits), 64, 3).tolist() == [order[label] for label in labels.tolist()]


@pytest.mark.slow
def test_a_million_codes_are_grouped_in_a_minute_and_a_gigabyte() -> None:
    script = """
import time
import numpy as np
from fewbits.benchmark.evaluate import peak_memory_mb
from fewbits.index.multi_index import near_groups
generator = np.random.default_rng(0)
codes = generator.integers(0, 256, (1_000_000, 8), dtype=np.uint8)
codes[200_000:300_000] = codes[0]  # many equal ones
codes[300_000:600_000] = codes[:300_000]
codes[np.arange(300_000, 600_000), generator.integers(0, 8, 300_000)] ^= np.uint8(5)  # two bits off
start = time.perf_counter()
groups = near_groups(codes, 64, 3)
print(time.perf_counter() - start, peak_memory_mb(), len(set(groups.tolist())))
assert (groups[300_000:600_000] == groups[:300_000]).all()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    seconds, megabytes, groups = map(float, done.stdout.split())
    print(f"a million codes of 64 bits at radius 3: {seconds:.1f} s, {megabytes:.0f} MB, {groups:,.0f} groups")
    assert seconds < 60
    assert megabytes < 1000
    assert groups == 600_000  # 200,000 and 400,000 that are alone


def test_near_documents_are_grouped_under_the_first_and_left_out_of_the_corpus(engine: SearchEngine) -> None:
    texts = {document.id: document.text for document in engine.documents()}
    engine.add([Document(f"again {id}", text) for id, text in texts.items()])
    groups = engine.duplicates(0, min_similarity=0)
    found = {id: group.representative for group in groups for id in (group.representative, *group.others)}
    assert all(found[f"again {id}"] == found[id] for id in texts)
    assert all(not str(group.representative).startswith("again") for group in groups)
    kept = [document.id for document in without_duplicates(engine.documents(), groups)]
    codes = {unpack(engine.codes([id]), 20).tobytes() for id in texts}
    assert len(kept) == len(codes)
    assert all(not str(id).startswith("again") for id in kept)
    with pytest.raises(ParameterError, match="radius, the bits that may differ, is out of range"):
        engine.duplicates(21)


def test_documents_on_one_topic_are_duplicates_only_if_their_words_are_similar() -> None:
    topics = {"sea": "boat mast harbour anchor wind sail", "soup": "garlic onion pepper soup kitchen salt"}
    generator = np.random.default_rng(0)
    texts = {
        f"{topic} {number}": " ".join(generator.choice(words.split(), 3, replace=False)) + f" word{chr(97 + number)}"
        for topic, words in topics.items()
        for number in range(12)
    }
    engine = SearchEngine.from_texts(list(texts.values()), ids=list(texts), n_bits=16)
    engine.add([Document("copy", texts["sea 5"] + "!"), Document("copy of the copy", texts["sea 5"].upper())])
    [group] = engine.duplicates(radius=16)
    assert (group.representative, group.others) == ("sea 5", ("copy", "copy of the copy"))
    assert max(len(group.others) for group in engine.duplicates(radius=16, min_similarity=0)) == 25
    for wrong in (-0.1, 1.5, "much", True):
        with pytest.raises(ParameterError, match=r"min_similarity, a cosine, is out of range"):
            engine.duplicates(3, min_similarity=wrong)  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_bits=st.sampled_from([1, 7, 64, 130]),
    radius=st.integers(0, 10),
    min_similarity=st.sampled_from([0.3, 0.6, 0.8, 1.0]),
)
def test_near_duplicates_equal_those_of_brute_force(seed: int, n_bits: int, radius: int, min_similarity: float) -> None:
    generator = np.random.default_rng(seed)
    vocabulary = np.array([f"word{chr(97 + number)}" for number in range(20)])
    patterns = [generator.choice(vocabulary, generator.integers(1, 9)) for _ in range(8)]
    texts = [
        " ".join([*patterns[generator.integers(8)], *generator.choice(vocabulary, generator.integers(0, 3))])
        for _ in range(40)
    ]
    engine = SearchEngine.from_texts(texts, n_bits=n_bits, method="lsh", random_state=0)
    radius = min(radius, n_bits)
    rows: Any = engine.features.transform(texts)
    bits = unpack(engine.encode(texts), n_bits)
    near = ((rows @ rows.T).toarray() >= min_similarity - 1e-5) & ((bits[:, None] != bits[None]).sum(axis=2) <= radius)
    _, labels = connected_components(near, directed=False)
    expected = [np.flatnonzero(labels == label).tolist() for label in dict.fromkeys(labels.tolist())]
    found = [[group.representative, *group.others] for group in engine.duplicates(radius, min_similarity)]
    assert found == [group for group in expected if len(group) > 1]
