"""The content of an engine's folder: a model, its documents and their words, and how it is changed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
from scipy import sparse

from fewbits.codes import check_n_bits
from fewbits.errors import BrokenFolderError, DataError, FewbitsError, LockedError, NotSavedError, NotWritableError
from fewbits.locks import writer_lock
from fewbits.search.encoder import Model
from fewbits.search.explain import MeaningCache
from fewbits.search.lexical_index import FOLDER as LEXICAL
from fewbits.search.lexical_index import LexicalIndex
from fewbits.search.near_duplicates import DuplicateCache
from fewbits.search.store.connection import record_commit
from fewbits.search.store.integrity import check_documents, prepare_copy
from fewbits.search.store.reader import Database, Reader
from fewbits.search.store.writer import Writer, record_change
from fewbits.storage import check_contained, check_replaceable, load_folder, save_folder, write_json

LOGGER = logging.getLogger("fewbits")
FORMAT = "fewbits engine"
FORMAT_VERSION = 3
OLDEST_VERSION = 2  # without sums over the tables
DOCUMENTS, COMMITTED = "documents.sqlite", "documents.version"
SUMS = "documents.json"  # marks folders whose documents have checksums, so that changes are detected
LOCK_TIMEOUT_S = 10.0  # how long a change waits for another writer
CATCH_UP_POLL_S = 0.002  # between the commits of documents and words by another process


class EngineState:
    """A model with its documents: the content of a folder between two saves."""

    def __init__(self, model: Model, database: Database, folder: Path | None = None) -> None:
        self.model = model
        self.database = database
        self.meaning_cache = MeaningCache(model)
        self.duplicate_cache = DuplicateCache(folder)
        self.words = LexicalIndex(folder and folder / LEXICAL, model.info.language) if model.has_words else None

    @classmethod
    def open(cls, folder: Path, *, verify: bool) -> EngineState:
        """Open a saved folder."""

        def read(generation: Path) -> EngineState:
            check_contained(generation, (DOCUMENTS, COMMITTED, LEXICAL))  # the manifest has no checksums of them
            has_sums = (generation / SUMS).exists()
            database = Database.open(generation / DOCUMENTS, has_sums=has_sums)
            state = cls(_read_model(generation), database, generation)
            if verify:
                state.verify()
            return state

        return load_folder(folder, FORMAT, FORMAT_VERSION, read, verify=verify, oldest=OLDEST_VERSION)

    def verify(self) -> None:
        """Compare the documents with their checksums; a lexical index that differs is rebuilt at the next use."""
        with self.database.reading() as connection:
            check_documents(connection)
            problem = self.words and self.words.verify(Reader(connection))
            if self.words is not None and problem:
                self.words.discard(problem)

    def save(self, folder: Path) -> None:
        """Save to a folder, which is replaced as a whole."""

        def write(generation: Path) -> None:
            self.model.write(generation)
            write_json(generation / SUMS, {"has_sums": True})
            with self.database.copied_to(generation / DOCUMENTS) as copy:
                prepare_copy(copy)
                reader = Reader(copy)
                record_commit(generation / DOCUMENTS, reader.version(), is_new=True)
                if self.words is not None and not self.words.copy_to(generation / LEXICAL, reader.version()):
                    with _naming(generation / LEXICAL):
                        LexicalIndex(generation / LEXICAL, self.model.info.language).build(reader)

        save_folder(folder, FORMAT, FORMAT_VERSION, write, mutable_files=[DOCUMENTS, COMMITTED, LEXICAL])

    @contextmanager
    def changing(self, *, is_saved: bool) -> Iterator[Writer]:
        """Commit changes to documents and lexical index together when the block ends; the caller is the only writer.

        Documents are committed first. If the process is killed before the words are, the next one catches up. Words
        that are only in memory are indexed by the first search, so before it there is nothing to change.
        """
        words = self.words if is_saved or (self.words is not None and self.words.latest_version() >= 0) else None
        with record_change(self.database) as writer:
            yield writer
            version = writer.version()
            is_staged = words is not None and _succeeds(lambda: words.stage(writer))
        if words is not None:
            if is_staged:
                _succeeds(lambda: words.commit(version))
            words.close()

    def catch_up(self, *, privately: bool = False) -> None:
        """Bring the words to the version of the documents; privately if the folder cannot be changed."""
        assert self.words is not None
        if privately:
            self.words.use_temporary_folder()
        with self.database.reading() as connection:
            self.words.catch_up(Reader(connection))

    def rebuild_words(self) -> int:
        """Write the lexical index again from all documents, and return their number."""
        with self.database.reading() as connection:
            if self.words is None:
                raise DataError("the engine has no lexical index", allowed="an engine created from texts")
            with _naming(self.database.path.with_name(LEXICAL)):
                self.words.build(Reader(connection))
            return Reader(connection).count()


class EngineChanges:
    """Changes of the present state of an engine: one at a time, by threads of this process and by other processes."""

    def __init__(self, folder: Path | None, latest: Callable[[], EngineState]) -> None:
        self._folder = folder
        self._latest = latest
        self._threads = threading.RLock()

    @contextmanager
    def writer(self) -> Iterator[tuple[Model, Writer]]:
        """Open the present state for one change, which becomes visible when the block ends."""
        with self._turn(timeout=LOCK_TIMEOUT_S):
            state = self._latest()  # nobody replaces it while the lock is held
            with state.changing(is_saved=self._folder is not None) as writer:
                yield state.model, writer

    def catch_up(self, state: EngineState, deadline: float) -> None:
        """Update the lexical index to the version of the documents, or wait briefly for the writer that does so."""
        try:
            with self._turn(timeout=0.0):
                if self._latest() is state:
                    state.catch_up()
        except LockedError:
            if time.monotonic() < deadline:
                return time.sleep(CATCH_UP_POLL_S)
            state.catch_up(privately=True)
        except (NotWritableError, FileNotFoundError):
            if self._latest() is state:
                state.catch_up(privately=True)
        except (OSError, ValueError) as error:  # of tantivy, for example on a full disk
            if isinstance(error, FewbitsError):
                raise
            LOGGER.warning("The lexical index in %s cannot be written: %s", self._folder, error)
            state.catch_up(privately=True)
        return None

    def rebuild_words(self) -> int:
        """Write the lexical index again from all documents, and return their number."""
        with self._turn(timeout=LOCK_TIMEOUT_S):
            return self._latest().rebuild_words()

    @contextmanager
    def _turn(self, timeout: float) -> Iterator[None]:
        """Hold the locks of this process and of the folder."""
        if not self._threads.acquire(blocking=timeout > 0):
            raise LockedError("another thread is changing the engine", hint="Try again when it has finished.")
        try:
            with nullcontext() if self._folder is None else writer_lock(self._folder, timeout):
                yield
        finally:
            self._threads.release()


def _read_model(generation: Path) -> Model:
    """Read a model, and encode one row: the arrays of a manipulated file may have inconsistent shapes."""
    model = Model.read(generation)
    row = sparse.csr_array((np.ones(1, np.float32), ([0], [0])), shape=(1, model.features.n_features))
    shape = model.hasher.transform_with_confidence(row if model.takes_text else row.toarray(), is_valid=True)[0].shape
    if shape != (1, check_n_bits(model.hasher.n_bits)):
        raise BrokenFolderError(f"{generation} contains arrays of the wrong shape", got=shape)
    return model


@contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Name a folder to which tantivy cannot write, for example on a full disk."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, FewbitsError):
            raise
        hint = "Free space on its disk, or choose another folder."
        raise NotSavedError(f"{folder} could not be written", got=error, hint=hint) from error


def _succeeds(change: Callable[[], None]) -> bool:
    """Change the lexical index; if that fails, it lags behind the documents, and the next user brings it up to date."""
    try:
        change()
    except (FewbitsError, ValueError, OSError) as error:
        LOGGER.warning("The lexical index could not be changed; it will be when it is used. %s", error)
        return False
    return True


def check_engine_folder(folder: str | Path) -> None:
    """Check that an engine may be saved to a folder; call it before a long fit."""
    check_replaceable(Path(folder), FORMAT)
