"""Bit order, packing, Hamming distance, and the forms of a code that other engines expect.

A code is a row of 0/1 (``uint8``). Packed, bit 0 is the highest bit of byte 0, and the last byte is filled
up with zeros: read from left to right, the bits, the bytes, the hexadecimal digits and the ``bit`` string of
a database all show the same code. The filling zeros are equal everywhere, so they add nothing to a distance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewbits.errors import DataError, ParameterError
from fewbits.validation import check_whole_number

Bits = NDArray[np.uint8]  # (documents, bits), 0 or 1
Packed = NDArray[np.uint8]  # (documents, bytes)

MAX_BITS = 4096


def check_n_bits(n_bits: int) -> int:
    """Return the code length if it is one, else say what is allowed."""
    hint = "32 to 128 bits suit most collections."
    return check_whole_number("n_bits, the code length,", n_bits, 1, MAX_BITS, hint=hint)


def n_bytes(n_bits: int) -> int:
    """Bytes of a packed code.

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
        raise DataError("codes are a table of documents x bits", allowed="two axes, one bit or more", got=array.shape)
    if not np.all((array == 0) | (array == 1)):
        raise DataError("codes hold 0 and 1 only", got=f"values from {array.min()} to {array.max()}")
    return np.packbits(array.astype(np.uint8, copy=False), axis=1, bitorder="big")


def unpack(packed: ArrayLike, n_bits: int) -> Bits:
    """Undo :func:`pack`.

    >>> unpack([[129, 128]], 9)
    array([[1, 0, 0, 0, 0, 0, 0, 1, 1]], dtype=uint8)
    """
    return np.unpackbits(check_packed(packed, n_bits), axis=1, count=n_bits, bitorder="big")


def check_packed(packed: ArrayLike, n_bits: int) -> Packed:
    """Return packed codes as contiguous bytes if they are of this length, with zeros after the last bit."""
    array = np.asarray(packed)
    width = n_bytes(n_bits)
    if array.ndim != 2 or array.shape[1] != width:
        raise DataError(
            f"packed codes of {n_bits} bits have another shape",
            allowed=f"(documents, {width})",
            got=array.shape,
            hint="fewbits.codes.pack makes them from rows of 0/1.",
        )
    if array.dtype.kind not in "iu" or array.min(initial=0) < 0 or array.max(initial=0) > 255:
        raise DataError("packed codes are bytes", allowed="whole numbers from 0 to 255", got=array.dtype)
    rows = np.ascontiguousarray(array, dtype=np.uint8)
    spare = 8 * width - n_bits
    if spare and np.any(rows[:, -1] & ((1 << spare) - 1)):
        raise DataError(f"packed codes of {n_bits} bits end in {spare} zeros", got="ones after the last bit")
    return rows


def hamming(queries: Packed, database: Packed) -> NDArray[np.uint16]:
    """Count the differing bits of every query with every row of the database, both packed.

    >>> hamming(pack([[1, 0, 1]]), pack([[1, 0, 1], [0, 1, 0]]))
    array([[0, 3]], dtype=uint16)
    """
    if queries.shape[1] != database.shape[1]:
        raise DataError("codes differ in length", got=f"{queries.shape[1]} and {database.shape[1]} bytes")
    left, right = _words(queries), _words(database)
    distances = np.zeros((len(left), len(right)), dtype=np.uint16)
    for word in range(left.shape[1]):
        distances += np.bitwise_count(left[:, word, None] ^ right[None, :, word])
    return distances


def _words(packed: Packed) -> NDArray[np.uint64]:
    """View packed codes as 64-bit words: eight bytes are counted in the time of one."""
    spare = -packed.shape[1] % 8
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, spare)))).view(np.uint64)


def to_bit_strings(packed: ArrayLike, n_bits: int) -> list[str]:
    """Strings of 0 and 1, as PostgreSQL's and pgvector's ``bit(n)`` reads them.

    >>> to_bit_strings([[129, 128]], 9)
    ['100000011']
    """
    characters = unpack(packed, n_bits) + np.uint8(ord("0"))
    return [row.tobytes().decode("ascii") for row in characters]


def from_bit_strings(strings: Sequence[str]) -> Packed:
    """Undo :func:`to_bit_strings`."""
    if len({len(string) for string in strings}) != 1 or set("".join(strings)) - {"0", "1"}:
        raise DataError("bit strings have one length and hold 0 and 1 only", got=repr(list(strings)[:3]))
    return pack(np.array([list(string.encode("ascii")) for string in strings], dtype=np.uint8) - ord("0"))


def to_faiss(packed: ArrayLike, n_bits: int) -> Packed:
    """Rows for a faiss binary index of dimension ``8 * n_bytes(n_bits)``: contiguous bytes."""
    return check_packed(packed, n_bits)


def from_faiss(rows: ArrayLike, n_bits: int) -> Packed:
    """Undo :func:`to_faiss`; the rows may come from ``index.reconstruct``."""
    return check_packed(np.atleast_2d(np.asarray(rows)), n_bits)


def to_milvus(packed: ArrayLike, n_bits: int) -> list[bytes]:
    """One ``bytes`` a document for a Milvus binary vector field of dimension ``8 * n_bytes(n_bits)``.

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
        raise DataError(f"codes of {n_bits} bits have another length", allowed=f"{width} bytes", got=sorted(wrong))
    return check_packed(np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, width), n_bits)


def to_integers(packed: ArrayLike, n_bits: int) -> NDArray[np.uint64]:
    """Unsigned integers, bit 0 the highest of ``n_bits``; for columns of databases that count bits of integers.

    >>> to_integers([[129, 128]], 9)
    array([259], dtype=uint64)
    """
    rows = check_packed(packed, n_bits)
    if n_bits > 64:
        raise ParameterError(
            "an unsigned integer holds 64 bits", allowed="n_bits up to 64", got=n_bits, hint="Use hex."
        )
    filled = np.pad(rows, ((0, 0), (0, 8 - rows.shape[1])))  # big-endian: bytes go to the front
    return filled.view(">u8")[:, 0].astype(np.uint64) >> np.uint64(64 - n_bits)


def from_integers(integers: ArrayLike, n_bits: int) -> Packed:
    """Undo :func:`to_integers`."""
    array = np.atleast_1d(np.asarray(integers))
    below = 2 ** check_n_bits(n_bits)
    if n_bits > 64 or array.dtype.kind not in "iu" or array.min(initial=0) < 0 or int(array.max(initial=0)) >= below:
        raise DataError(f"integers do not fit into {n_bits} bits", allowed="n_bits up to 64 and values below 2**n_bits")
    values = array.astype(np.uint64)
    filled = (values << np.uint64(64 - n_bits)).astype(">u8")
    return np.ascontiguousarray(filled[:, None].view(np.uint8)[:, : n_bytes(n_bits)])


def to_hex(packed: ArrayLike, n_bits: int) -> list[str]:
    """Hexadecimal digits, two a byte.

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
        raise DataError("codes are not hexadecimal", allowed="digits 0-9 and a-f, two a byte", got=error) from error
