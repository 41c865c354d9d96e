"""Bit order, packing, Hamming distance, and conversion to the formats of other engines.

A code is a row of 0/1 (``uint8``). In packed form bit 0 is the highest bit of byte 0, and the last byte is padded with
zeros. So bits, bytes, hexadecimal digits and the ``bit`` string of a database all read the same from left to right. The
padding is the same in every code and adds nothing to a distance. This is the only module that knows the bit order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewbits.errors import DataError, ParameterError
from fewbits.validation import check_whole_number

Bits = NDArray[np.uint8]  # (documents, bits), 0 or 1
Packed = NDArray[np.uint8]  # (documents, bytes)
Words = NDArray[np.uint64]  # (documents, words of 64 bits)

MAX_BITS = 4096
BLOCK = 1 << 16  # codes whose sums fit into the processor's cache


def check_n_bits(n_bits: int) -> int:
    """Return a valid code length."""
    hint = "32 to 128 bits suit most collections."
    return check_whole_number("n_bits, the code length,", n_bits, 1, MAX_BITS, hint=hint)


def n_bytes(n_bits: int) -> int:
    """Return the number of bytes of a packed code.

    >>> n_bytes(8), n_bytes(9)
    (1, 2)
    """
    return (check_n_bits(n_bits) + 7) // 8


def pack(bits: ArrayLike) -> Packed:
    """Pack rows of 0/1 into bytes.

    >>> pack([[1, 0, 0, 0, 0, 0, 0, 1, 1]])
    array([[129, 128]], dtype=uint8)
    """
    array = np.asarray(bits)
    if array.ndim != 2 or array.shape[1] == 0:
        raise DataError(
            "codes must be a table of documents x bits", allowed="two axes, one bit or more", got=array.shape
        )
    if not np.all((array == 0) | (array == 1)):
        raise DataError("codes must consist of 0 and 1", got=f"values from {array.min()} to {array.max()}")
    return np.packbits(array.astype(np.uint8, copy=False), axis=1, bitorder="big")


def unpack(packed: ArrayLike, n_bits: int) -> Bits:
    """Undo :func:`pack`.

    >>> unpack([[129, 128]], 9)
    array([[1, 0, 0, 0, 0, 0, 0, 1, 1]], dtype=uint8)
    """
    return np.unpackbits(check_packed(packed, n_bits), axis=1, count=n_bits, bitorder="big")


def check_packed(packed: ArrayLike, n_bits: int) -> Packed:
    """Return packed codes as contiguous bytes; a wrong length, or ones after the last bit, is an error."""
    array = np.asarray(packed)
    width = n_bytes(n_bits)
    if array.ndim != 2 or array.shape[1] != width:
        raise DataError(
            f"packed codes of {n_bits} bits have the wrong shape",
            allowed=f"(documents, {width})",
            got=array.shape,
            hint="fewbits.codes.pack packs rows of 0/1.",
        )
    is_bytes = array.dtype == np.uint8
    if not is_bytes and (array.dtype.kind not in "iu" or array.min(initial=0) < 0 or array.max(initial=0) > 255):
        raise DataError("packed codes must be bytes", allowed="integers from 0 to 255", got=array.dtype)
    rows = np.ascontiguousarray(array, dtype=np.uint8)
    spare = 8 * width - n_bits
    if spare and np.any(rows[:, -1] & ((1 << spare) - 1)):
        raise DataError(f"packed codes of {n_bits} bits must end in {spare} zeros", got="ones after the last bit")
    return rows


def hamming(queries: Packed, database: Packed) -> NDArray[np.uint16]:
    """Compute the Hamming distance of every query to every row of the database, both packed.

    >>> hamming(pack([[1, 0, 1]]), pack([[1, 0, 1], [0, 1, 0]]))
    array([[0, 3]], dtype=uint16)
    """
    if queries.shape[1] != database.shape[1]:
        raise DataError("codes differ in length", got=f"{queries.shape[1]} and {database.shape[1]} bytes")
    left, right = as_words(queries), as_words(database)
    distances = np.zeros((len(left), len(right)), dtype=np.uint16)
    for word in range(left.shape[1]):
        distances += np.bitwise_count(left[:, word, None] ^ right[None, :, word])
    return distances


def weighted_distances(query: Packed, database: Packed, weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute for each code of the database the sum of the weights of the bits that differ from one query.

    The sum of 16 bits is looked up in a table of all 65,536 patterns.

    >>> weighted_distances(pack([[1, 0]]), pack([[1, 1], [0, 1]]), np.float32([2, 3])).tolist()
    [3.0, 5.0]
    """
    padded = np.zeros(-(-len(weights) // 16) * 16, dtype=np.float32)
    padded[: len(weights)] = weights
    tables = [_sums_of_patterns(part) for part in padded.reshape(-1, 16)]
    codes, first = _half_words(database), _half_words(query)
    result = np.empty(len(codes), dtype=np.float32)
    for start in range(0, len(codes), BLOCK):
        differing = codes[start : start + BLOCK] ^ first
        part = result[start : start + BLOCK]
        part[:] = tables[0].take(differing[:, 0])
        for column, table in enumerate(tables[1:], 1):
            part += table.take(differing[:, column])
    return result


def as_words(packed: Packed) -> Words:
    """Return packed codes as 64-bit words, padded with zeros: eight bytes are processed at a time.

    >>> as_words(pack([[1, 0, 0], [0, 0, 1]])).shape
    (2, 1)
    """
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))).view(np.uint64)


def differing_bits(left: NDArray[np.unsignedinteger], right: NDArray[np.unsignedinteger]) -> NDArray[np.int32]:
    """Count the differing bits of each row with the row beside it; a single row is compared with all.

    The rows are packed codes or their words.

    >>> differing_bits(pack([[1, 0, 1], [1, 1, 1]]), pack([[1, 0, 0], [0, 0, 0]]))
    array([1, 3], dtype=int32)
    """
    return np.bitwise_count(left ^ right).sum(axis=1, dtype=np.int32)


def differing_weight(
    left: NDArray[np.unsignedinteger], right: NDArray[np.unsignedinteger], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Sum the weights of the bits of packed codes that differ from those of the row beside it, or of a single row.

    >>> differing_weight(pack([[1, 1], [0, 1]]), pack([[1, 0]]), np.float32([2, 3])).tolist()
    [3.0, 5.0]
    """
    return np.unpackbits(left ^ right, axis=1, count=len(weights), bitorder="big").astype(np.float32) @ weights


def bit_column(packed: Packed, bit: int) -> NDArray[np.bool_]:
    """Return one bit of every code.

    >>> bit_column(pack([[1, 0], [1, 1]]), 1)
    array([False,  True])
    """
    byte, place = divmod(bit, 8)
    return (packed[:, byte] >> (7 - place)) & 1 == 1


def as_signs(packed: Packed) -> NDArray[np.float32]:
    """Return bits as -1 and 1, with the padding of the last byte as -1.

    >>> as_signs(pack([[1, 0, 1]])).tolist()
    [[1.0, -1.0, 1.0, -1.0, -1.0, -1.0, -1.0, -1.0]]
    """
    return np.unpackbits(packed, axis=1, bitorder="big").astype(np.float32) * 2 - 1


def _half_words(packed: Packed) -> NDArray[np.uint16]:
    """Return packed codes as 16-bit numbers, padded with zeros: bit 0 is the highest bit of the first."""
    return np.pad(packed, ((0, 0), (0, packed.shape[1] % 2))).view(">u2")


def _sums_of_patterns(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sum 16 weights over the bits of each of 2**16 patterns; the first weight belongs to the highest bit."""
    patterns = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="big").astype(np.float32)
    high, low = (patterns @ part for part in weights.reshape(2, 8))
    return np.add.outer(high, low).ravel()


def bit_masks(groups: NDArray[np.int64], n_groups: int) -> Words:
    """Return a mask per group of bits, (groups, words): bit ``i`` belongs to group ``groups[i]``."""
    bits = np.zeros((n_groups, len(groups)), dtype=np.uint8)
    bits[groups, np.arange(len(groups))] = 1
    return as_words(pack(bits))


def to_bit_strings(packed: ArrayLike, n_bits: int) -> list[str]:
    """Convert to strings of 0 and 1, as PostgreSQL's and pgvector's ``bit(n)`` reads them.

    >>> to_bit_strings([[129, 128]], 9)
    ['100000011']
    """
    characters = unpack(packed, n_bits) + np.uint8(ord("0"))
    return [row.tobytes().decode("ascii") for row in characters]


def from_bit_strings(strings: Sequence[str]) -> Packed:
    """Undo :func:`to_bit_strings`."""
    if len({len(string) for string in strings}) != 1 or set("".join(strings)) - {"0", "1"}:
        raise DataError("bit strings must have one length and consist of 0 and 1", got=repr(list(strings)[:3]))
    return pack(np.array([list(string.encode("ascii")) for string in strings], dtype=np.uint8) - ord("0"))


def to_faiss(packed: ArrayLike, n_bits: int) -> Packed:
    """Convert to rows of a faiss binary index of dimension ``8 * n_bytes(n_bits)``: contiguous bytes."""
    return check_packed(packed, n_bits)


def from_faiss(rows: ArrayLike, n_bits: int) -> Packed:
    """Undo :func:`to_faiss`; the rows may come from ``index.reconstruct``."""
    return check_packed(np.atleast_2d(np.asarray(rows)), n_bits)


def to_milvus(packed: ArrayLike, n_bits: int) -> list[bytes]:
    """Convert to one ``bytes`` per document, for a Milvus binary vector field of dimension ``8 * n_bytes(n_bits)``.

    >>> to_milvus([[129, 128]], 9)
    [b'\\x81\\x80']
    """
    return [row.tobytes() for row in check_packed(packed, n_bits)]


def from_milvus(vectors: Iterable[bytes], n_bits: int) -> Packed:
    """Undo :func:`to_milvus`."""
    rows = list(vectors)
    width = n_bytes(n_bits)
    wrong = {len(row) for row in rows} - {width}
    if wrong:
        raise DataError(f"codes of {n_bits} bits have the wrong length", allowed=f"{width} bytes", got=sorted(wrong))
    return check_packed(np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, width), n_bits)


def to_integers(packed: ArrayLike, n_bits: int) -> NDArray[np.uint64]:
    """Convert to unsigned integers, for databases that count the bits of integers; bit 0 is the highest of ``n_bits``.

    >>> to_integers([[129, 128]], 9)
    array([259], dtype=uint64)
    """
    rows = check_packed(packed, n_bits)
    if n_bits > 64:
        raise ParameterError("an unsigned integer has 64 bits", allowed="n_bits up to 64", got=n_bits, hint="Use hex.")
    padded = np.pad(rows, ((0, 0), (0, 8 - rows.shape[1])))  # big-endian: bytes go to the front
    return padded.view(">u8")[:, 0].astype(np.uint64) >> np.uint64(64 - n_bits)


def from_integers(integers: ArrayLike, n_bits: int) -> Packed:
    """Undo :func:`to_integers`."""
    array = np.atleast_1d(np.asarray(integers))
    below = 2 ** check_n_bits(n_bits)
    if n_bits > 64 or array.dtype.kind not in "iu" or array.min(initial=0) < 0 or int(array.max(initial=0)) >= below:
        raise DataError(f"integers do not fit into {n_bits} bits", allowed="n_bits up to 64 and values below 2**n_bits")
    values = array.astype(np.uint64)
    padded = (values << np.uint64(64 - n_bits)).astype(">u8")
    return np.ascontiguousarray(padded[:, None].view(np.uint8)[:, : n_bytes(n_bits)])


def to_hex(packed: ArrayLike, n_bits: int) -> list[str]:
    """Convert to hexadecimal digits, two per byte.

    >>> to_hex([[129, 128]], 9)
    ['8180']
    """
    return [row.tobytes().hex() for row in check_packed(packed, n_bits)]


def from_hex(strings: Iterable[str], n_bits: int) -> Packed:
    """Undo :func:`to_hex`."""
    try:
        return from_milvus((bytes.fromhex(string) for string in strings), n_bits)
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError("codes are not hexadecimal", allowed="digits 0-9 and a-f, two per byte", got=error) from error
