from __future__ import annotations

from collections.abc import Callable

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from fewbits import codes
from fewbits.errors import DataError, ParameterError

Bits = NDArray[np.uint8]


def bit_tables(max_bits: int = 256) -> st.SearchStrategy[Bits]:
    shapes = st.tuples(st.integers(1, 9), st.integers(1, max_bits))
    return shapes.flatmap(lambda shape: hnp.arrays(np.uint8, shape, elements=st.integers(0, 1)))


@given(bit_tables())
def test_packing_of_any_length_is_undone_by_unpacking(bits: Bits) -> None:
    packed = codes.pack(bits)
    assert packed.shape == (len(bits), codes.n_bytes(bits.shape[1]))
    assert np.array_equal(codes.unpack(packed, bits.shape[1]), bits)


@given(bit_tables())
def test_hamming_counts_the_bits_that_differ(bits: Bits) -> None:
    others = bits[::-1] ^ np.roll(bits, 1, axis=1)
    expected = (bits[:, None, :] != others[None, :, :]).sum(axis=2)
    assert np.array_equal(codes.hamming(codes.pack(bits), codes.pack(others)), expected)


@given(bit_tables())
def test_every_text_and_byte_form_gives_the_code_back(bits: Bits) -> None:
    n_bits, packed = bits.shape[1], codes.pack(bits)
    assert np.array_equal(codes.from_hex(codes.to_hex(packed, n_bits), n_bits), packed)
    assert np.array_equal(codes.from_bit_strings(codes.to_bit_strings(packed, n_bits)), packed)
    assert np.array_equal(codes.from_milvus(codes.to_milvus(packed, n_bits), n_bits), packed)
    assert np.array_equal(codes.from_faiss(codes.to_faiss(packed, n_bits), n_bits), packed)


@given(bit_tables(max_bits=64))
def test_integers_have_bit_zero_highest_and_come_back(bits: Bits) -> None:
    n_bits, packed = bits.shape[1], codes.pack(bits)
    integers = codes.to_integers(packed, n_bits)
    assert integers.tolist() == [int("".join(map(str, row)), 2) for row in bits.tolist()]
    assert np.array_equal(codes.from_integers(integers, n_bits), packed)


def test_a_faiss_index_takes_the_rows_and_gives_them_back() -> None:
    packed = codes.pack(np.eye(11, dtype=np.uint8))
    index = faiss.IndexBinaryFlat(8 * codes.n_bytes(11))
    index.add(codes.to_faiss(packed, 11))
    assert np.array_equal(codes.from_faiss(index.reconstruct(3), 11), packed[3:4])
    assert index.search(packed[3:4], 2)[0].tolist() == [[0, 2]]


def test_bits_bytes_digits_and_strings_read_the_same_from_left_to_right() -> None:
    packed = codes.pack([[1, 1, 0, 0, 0, 0, 0, 0, 1, 1]])
    assert codes.to_bit_strings(packed, 10) == ["1100000011"]
    assert codes.to_hex(packed, 10) == ["c0c0"]
    assert codes.to_milvus(packed, 10) == [b"\xc0\xc0"]
    assert codes.to_integers(packed, 10).tolist() == [0b1100000011]


@pytest.mark.parametrize("n_bits", [0, -1, 5000, 1.5, True, "8"])
def test_a_code_length_out_of_range_is_refused_with_the_range(n_bits: int) -> None:
    with pytest.raises(ParameterError, match=r"n_bits, the code length.*allowed: 1 to 4096; got: "):
        codes.n_bytes(n_bits)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda: codes.pack([[0, 2]]), "codes must consist of 0 and 1"),
        (lambda: codes.pack([0, 1]), "table of documents x bits"),
        (lambda: codes.unpack(np.zeros((2, 3), np.uint8), 8), r"allowed: \(documents, 1\); got: \(2, 3\)"),
        (lambda: codes.unpack(np.full((1, 1), 255, np.uint8), 7), "ones after the last bit"),
        (lambda: codes.unpack(np.full((1, 1), 256), 8), "packed codes must be bytes"),
        (lambda: codes.unpack([[-1]], 8), "packed codes must be bytes"),
        (lambda: codes.unpack([[1.5]], 8), "packed codes must be bytes"),
        (lambda: codes.hamming(np.zeros((1, 8), np.uint8), np.zeros((1, 16), np.uint8)), "got: 8 and 16 bytes"),
        (lambda: codes.from_integers([-1], 8), "do not fit into 8 bits"),
        (lambda: codes.from_integers([1.5], 8), "do not fit into 8 bits"),
        (lambda: codes.from_hex(["zz"], 8), "not hexadecimal"),
        (lambda: codes.from_hex(["00", "0000"], 8), r"allowed: 1 bytes; got: \[2\]"),
        (lambda: codes.from_bit_strings(["01", "0"]), "one length"),
        (lambda: codes.from_integers([4], 2), "do not fit into 2 bits"),
    ],
)
def test_a_code_in_a_wrong_form_is_refused_with_the_reason(broken: Callable[[], object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        broken()


def test_more_than_64_bits_do_not_fit_into_an_integer() -> None:
    with pytest.raises(ParameterError, match="n_bits up to 64"):
        codes.to_integers(np.zeros((1, 9), np.uint8), 65)


@given(bit_tables(), st.integers(0, 2**32 - 1))
def test_columns_signs_words_and_sums_follow_the_bit_order(bits: Bits, seed: int) -> None:
    packed, n_bits = codes.pack(bits), bits.shape[1]
    bit = seed % n_bits
    assert np.array_equal(codes.bit_column(packed, bit), bits[:, bit] == 1)
    assert np.array_equal(codes.as_signs(packed)[:, :n_bits], bits.astype(np.float32) * 2 - 1)
    differing = (bits != bits[:1]).sum(axis=1)
    assert np.array_equal(codes.differing_bits(packed, packed[:1]), differing)
    assert np.array_equal(codes.differing_bits(codes.as_words(packed), codes.as_words(packed[:1])), differing)
    weights = np.arange(n_bits, dtype=np.float32) % 9
    expected = ((bits != bits[:1]) * weights).sum(axis=1)
    assert np.array_equal(codes.weighted_distances(packed[:1], packed, weights), expected)
    even, odd = codes.bit_masks(np.arange(n_bits) % 2, 2)
    words = codes.as_words(packed)
    assert np.array_equal((words & even) | (words & odd), words)
    assert not (even & odd).any()
