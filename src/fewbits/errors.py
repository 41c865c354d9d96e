"""Exceptions of fewbits. A message says what is wrong, what is allowed, what was received, and what to do next."""

from __future__ import annotations


class FewbitsError(Exception):
    """Base class of all exceptions in fewbits.

    >>> print(FewbitsError("n_bits is out of range", allowed="1 to 1024", got=0, hint="Try 64."))
    n_bits is out of range (allowed: 1 to 1024; got: 0). Try 64.
    """

    def __init__(self, what: str, *, allowed: object = None, got: object = None, hint: str = "") -> None:
        self.what, self.allowed, self.got, self.hint = what, allowed, got, hint
        facts = [f"{name}: {value}" for name, value in (("allowed", allowed), ("got", got)) if value is not None]
        self.message = what + (f" ({'; '.join(facts)})" if facts else "") + "." + (f" {hint}" if hint else "")
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message  # KeyError would put the message in quotes


class ParameterError(FewbitsError, ValueError):
    """A parameter has a value that is not allowed."""


class DataError(FewbitsError, ValueError):
    """Documents, labels or arrays cannot be used."""


class TrainingError(FewbitsError, ArithmeticError):
    """Training diverged: the loss is not finite."""


class MissingFileError(FewbitsError, FileNotFoundError):
    """A required file or folder does not exist."""


class BrokenFolderError(FewbitsError, ValueError):
    """A saved folder is incomplete, was altered, or has another format."""


class UnknownIdError(FewbitsError, KeyError):
    """No document has this id."""


class LockedError(FewbitsError, TimeoutError):
    """Another process is changing the same folder."""


class NotWritableError(FewbitsError, PermissionError):
    """A folder is read-only."""


class NotSavedError(FewbitsError, OSError):
    """A folder could not be written, for example on a full disk; what it contained before is unchanged."""


class EmptyDocumentsWarning(UserWarning):
    """Some documents have no words, or no nonzero value: nothing is learned from them."""


class MissingExtraError(FewbitsError, ImportError):
    """A feature needs an extra that is not installed.

    >>> print(MissingExtraError("reading Parquet", extra="parquet"))
    reading Parquet needs an extra that is not installed. Install it: pip install 'fewbits[parquet]'
    """

    def __init__(self, purpose: str, *, extra: str, otherwise: str = "") -> None:
        hint = f"Install it: pip install 'fewbits[{extra}]'" + (f", or {otherwise}" if otherwise else "")
        super().__init__(f"{purpose} needs an extra that is not installed", hint=hint)
