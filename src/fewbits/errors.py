"""Every error fewbits raises on purpose: what was wrong, what is allowed, what was got, what to do next."""

from __future__ import annotations


class FewbitsError(Exception):
    """Base of all errors that fewbits raises on purpose.

    >>> print(FewbitsError("n_bits is out of range", allowed="1 to 1024", got=0, hint="Try 64."))
    n_bits is out of range (allowed: 1 to 1024; got: 0). Try 64.
    """

    def __init__(self, what: str, *, allowed: object = None, got: object = None, hint: str = "") -> None:
        self.what, self.allowed, self.got, self.hint = what, allowed, got, hint
        facts = [f"{name}: {value}" for name, value in (("allowed", allowed), ("got", got)) if value is not None]
        self.message = what + (f" ({'; '.join(facts)})" if facts else "") + "." + (f" {hint}" if hint else "")
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message  # KeyError would print the message in quotes


class ParameterError(FewbitsError, ValueError):
    """A parameter is outside what is allowed."""


class DataError(FewbitsError, ValueError):
    """The documents, labels or arrays that were given cannot be used."""


class TrainingError(FewbitsError, ArithmeticError):
    """A training has left the numbers that it can go on with."""


class MissingFileError(FewbitsError, FileNotFoundError):
    """A file or folder that is needed is not there."""


class BrokenFolderError(FewbitsError, ValueError):
    """A saved folder is incomplete, altered, or of another format."""


class UnknownIdError(FewbitsError, KeyError):
    """No document has this id."""


class LockedError(FewbitsError, TimeoutError):
    """Another process is changing the same folder."""


class NotWritableError(FewbitsError, PermissionError):
    """A folder may be read but not changed."""


class MissingExtraError(FewbitsError, ImportError):
    """An optional part of fewbits is not installed.

    >>> print(MissingExtraError("reading Parquet", extra="parquet"))
    reading Parquet needs an optional part of fewbits. Install it: pip install 'fewbits[parquet]'
    """

    def __init__(self, purpose: str, *, extra: str, otherwise: str = "") -> None:
        hint = f"Install it: pip install 'fewbits[{extra}]'" + (f", or {otherwise}" if otherwise else "")
        super().__init__(f"{purpose} needs an optional part of fewbits", hint=hint)
