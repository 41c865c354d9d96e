"""The state of an engine, in memory or in a folder: its documents, the index of their codes, and their words."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fewbits.errors import BrokenFolderError, DataError, FewbitsError, LockedError, NotWritableError
from fewbits.index import DEFAULT_INDEX, Index, make_index
from fewbits.search.encoder import Model
from fewbits.search.explain import MeaningCache
from fewbits.search.lexical import LexicalSnapshot
from fewbits.search.lexical_index import FOLDER as LEXICAL
from fewbits.search.lexical_index import LexicalIndex
from fewbits.search.snapshot import Snapshot
from fewbits.search.store.reader import Database, Reader
from fewbits.search.store.writer import Writer, check_documents, record_change
from fewbits.storage import check_replaceable, folder_state, load_folder, save_folder, writer_lock

LOGGER = logging.getLogger("fewbits")
FORMAT = "fewbits engine"
FORMAT_VERSION = 2
DOCUMENTS = "documents.sqlite"
LOCK_TIMEOUT_S = 10.0  # how long a change waits for another writer
CATCH_UP_POLL_S = 0.002  # between the commits of documents and words by another process


@dataclass(frozen=True)
class IndexSnapshot:
    """The index of one version of the documents."""

    version: int
    index: Index


class IndexCache:
    """A cache of the index of the version that was read last.

    A cached index is never changed: threads that search it see one version to the end.
    """

    def __init__(self, n_bits: int) -> None:
        self._n_bits = n_bits
        self._lock = threading.Lock()
        self._cached: IndexSnapshot | None = None

    def at(self, reader: Reader) -> IndexSnapshot | None:
        """Return the index of the version that a reader sees; None if the cache is newer: the caller retries."""
        version = reader.version()
        cached = self._cached
        if cached is None or cached.version < version:
            with self._lock:
                cached = self._cached
                if cached is None or cached.version < version:
                    cached = self._cached = IndexSnapshot(version, self._read(reader, cached))
        return cached if cached.version == version else None

    def _read(self, reader: Reader, cached: IndexSnapshot | None) -> Index:
        changes = None if cached is None else reader.changes_since(cached.version, self._n_bits)
        if cached is None or changes is None:
            positions, codes = reader.codes(self._n_bits)
        else:
            positions, codes = cached.index.arrays()
            kept = ~np.isin(positions, changes.removed)
            codes = np.concatenate([codes[kept], changes.codes])
            positions = np.concatenate([positions[kept], changes.added])
            order = np.argsort(positions, kind="stable")  # the order in which a full read returns them
            positions, codes = positions[order], codes[order]
        index = make_index(DEFAULT_INDEX, self._n_bits)
        index.add(positions, codes)
        return index


class EngineState:
    """A model with its documents: the content of a folder between two saves."""

    def __init__(self, model: Model, database: Database, folder: Path | None = None, stamp: object = None) -> None:
        self.model = model
        self.database = database
        self.stamp = stamp  # of the folder when it was opened
        self.index_cache = IndexCache(model.hasher.n_bits)
        self.meaning_cache = MeaningCache(model)
        self.words = LexicalIndex(folder and folder / LEXICAL, model.info.language) if model.takes_text else None

    @classmethod
    def open(cls, folder: Path, *, verify: bool) -> EngineState:
        """Open a saved folder."""
        stamp = folder_state(folder)  # before reading: what is saved meanwhile is then seen as newer

        def read(generation: Path) -> EngineState:
            state = cls(Model.read(generation), Database.open(generation / DOCUMENTS), generation, stamp)
            if verify:
                state.verify()
            return state

        return load_folder(folder, FORMAT, FORMAT_VERSION, read, verify=verify, oldest=FORMAT_VERSION)

    def verify(self) -> None:
        """Compare the documents with their checksums; a lexical index that differs from them is rebuilt when used."""
        with self.database.reading() as connection:
            check_documents(connection)
            problem = self.words and self.words.verify(Reader(connection))
            if self.words is not None and problem:
                self.words.discard(problem)

    def save(self, folder: Path) -> None:
        """Save to a folder, which is replaced as a whole."""

        def write(generation: Path) -> None:
            self.model.write(generation)
            with self.database.copied_to(generation / DOCUMENTS) as copy:
                reader = Reader(copy)
                if self.words is not None and not self.words.copy_to(generation / LEXICAL, reader.version()):
                    LexicalIndex(generation / LEXICAL, self.model.info.language).build(reader)

        save_folder(folder, FORMAT, FORMAT_VERSION, write, mutable_files=[DOCUMENTS, LEXICAL])


class EngineStore:
    """The present state of an engine, in memory or in a folder that other processes may change."""

    def __init__(self, state: EngineState, folder: Path | None = None) -> None:
        self._state = state
        self._folder = folder
        self._write_lock = threading.RLock()
        self._open_lock = threading.Lock()

    def latest(self) -> EngineState:
        """Return the present state; a folder is reopened if it was saved since."""
        if self._folder is not None and folder_state(self._folder) != self._state.stamp:
            with self._open_lock:
                if folder_state(self._folder) != self._state.stamp:
                    self._state = EngineState.open(self._folder, verify=False)
        return self._state

    @contextmanager
    def snapshot(self, *, with_words: bool = True) -> Iterator[Snapshot]:
        """Open the present state for reading; it stays the same until the block ends.

        Without words it need not wait for the lexical index.
        """
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        with ExitStack() as stack:
            while (snapshot := self._try_snapshot(stack, with_words=with_words, deadline=deadline)) is None:
                stack.close()
            yield snapshot

    def _try_snapshot(self, stack: ExitStack, *, with_words: bool, deadline: float) -> Snapshot | None:
        """Open the present state; None if it was replaced meanwhile, or its words are not up to date."""
        state = self.latest()
        try:
            reader = Reader(stack.enter_context(state.database.reading()))
        except BrokenFolderError:
            if self._folder is None or folder_state(self._folder) == state.stamp:
                raise
            return None  # another save has removed the file
        indexed = state.index_cache.at(reader)
        if indexed is None:
            return None
        words: LexicalSnapshot | None = None
        if with_words and state.words is not None:
            words = state.words.at(indexed.version)
            if words is None:
                stack.close()
                self._catch_up(state, deadline)
                return None
        return Snapshot(state, indexed.version, indexed.index, words, reader)

    def _catch_up(self, state: EngineState, deadline: float) -> None:
        """Bring the words to the version of the documents, or wait a moment for the writer who is doing so."""
        assert state.words is not None
        try:
            with self._locked(timeout=0.0), state.database.reading() as connection:
                if self.latest() is state:
                    state.words.catch_up(Reader(connection))
        except LockedError:
            if time.monotonic() < deadline:
                return time.sleep(CATCH_UP_POLL_S)
            self._catch_up_privately(state)
        except (NotWritableError, FileNotFoundError):
            if self.latest() is state:
                self._catch_up_privately(state)
        return None

    def _catch_up_privately(self, state: EngineState) -> None:
        """Index the words in a temporary folder, because the engine's own cannot be changed."""
        assert state.words is not None
        state.words.use_temporary_folder()
        with state.database.reading() as connection:
            state.words.catch_up(Reader(connection))

    @contextmanager
    def writer(self) -> Iterator[tuple[Model, Writer]]:
        """Open the present state for one change, which becomes visible when the block ends.

        Documents are committed first. If the process is killed before the words are, the next one catches up.
        """
        with self._locked(timeout=LOCK_TIMEOUT_S):
            state = self.latest()  # nobody replaces it while the lock is held
            words = state.words if self._folder is not None or _is_in_use(state.words) else None
            with record_change(state.database) as writer:
                yield state.model, writer
                version = writer.version()
                is_staged = words is not None and _succeeds(lambda: words.stage(writer))
            if words is not None:
                if is_staged:
                    _succeeds(lambda: words.commit(version))
                words.close()

    def rebuild_words(self) -> int:
        """Write the lexical index again from all documents, and return their number."""
        with self._locked(timeout=LOCK_TIMEOUT_S):
            state = self.latest()
            with state.database.reading() as connection:
                if state.words is None:
                    raise DataError("the engine has no lexical index", allowed="an engine created from texts")
                state.words.build(Reader(connection))
                return Reader(connection).count()

    @contextmanager
    def _locked(self, timeout: float) -> Iterator[None]:
        """Hold the locks of this process and of the folder."""
        if not self._write_lock.acquire(blocking=timeout > 0):
            raise LockedError("another thread is changing the engine", hint="Try again when it has finished.")
        try:
            with nullcontext() if self._folder is None else writer_lock(self._folder, timeout):
                yield
        finally:
            self._write_lock.release()


def _is_in_use(words: LexicalIndex | None) -> bool:
    """Return whether words that are only in memory have been indexed, which the first search does."""
    return words is not None and words.latest_version() >= 0


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


def rebuild_lexical_index(folder: str | Path) -> int:
    """Build the lexical index of a saved engine again from its documents, and return their number."""
    return EngineStore(EngineState.open(Path(folder), verify=False), Path(folder)).rebuild_words()
