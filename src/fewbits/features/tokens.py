"""From a text to its words.

The protocol's words are ``\\b[a-z][a-z]+\\b`` in lower case: runs of word characters that are letters a to z
throughout, two or more. They are found by splitting bytes instead of by a regular expression, which gives the
same words in a fraction of the time (see :func:`split_words`).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

from fewbits.errors import ParameterError

# A character that is no part of a word (re's \w) becomes a space; every latin-1 character has its byte.
_SPACED = bytes(byte if re.match(r"\w", chr(byte)) else ord(" ") for byte in range(256))
_FOREIGN = "ª"  # a latin-1 word character outside a-z: stands for every word character beyond latin-1

Tokenizer = Callable[[str], list[bytes]]


def split_words(text: str) -> list[bytes]:
    """Split into all runs of word characters, in lower case; those that are words are seen by :func:`is_word`.

    >>> split_words("Don't stop: x_1, naïve")
    [b'don', b't', b'stop', b'x_1', b'na\\xefve']
    """
    return text.lower().encode("latin-1", "fewbits-foreign").translate(_SPACED).split()


def is_word(token: bytes) -> bool:
    """Tell whether a run of word characters is a word: letters a to z throughout, two or more.

    >>> [is_word(token) for token in (b"stop", b"t", b"x_1", b"na\\xefve")]
    [True, False, False, False]
    """
    return len(token) > 1 and token.isalpha()  # bytes.isalpha knows a-z and A-Z only


def pattern_tokenizer(pattern: str) -> Tokenizer:
    """Find words by a regular expression of the user's, in lower case."""
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ParameterError("token_pattern is no regular expression", got=repr(pattern), hint=f"{error}.") from error
    if compiled.groups > 1:
        raise ParameterError("token_pattern has several groups", allowed="one or none", got=repr(pattern))
    find = compiled.findall
    return lambda text: [token.encode() for token in find(text.lower())]


def _replace_foreign(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)  # the handler is only used for encoding
    foreign = error.object[error.start : error.end]
    return "".join(_FOREIGN if re.match(r"\w", character) else " " for character in foreign), error.end


codecs.register_error("fewbits-foreign", _replace_foreign)
