"""The folder of the lexical index: derived from the documents, brought up to date and rebuilt from them.

A commit contains the version of the documents that it stands for. It is durable and atomic: after a crash the index is
that of the previous commit, and the next process that uses it updates it.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any
from weakref import finalize

import tantivy
from tantivy import Query, TextAnalyzerBuilder, Tokenizer

from fewbits.errors import FewbitsError, ParameterError
from fewbits.search.languages import LANGUAGES, guess_language
from fewbits.search.lexical import CODES, POSITION, REBUILD, VERSION, WORDS, LexicalSnapshot, make_schema
from fewbits.search.lexical_files import check_files, fields, panics_as_errors, record_files
from fewbits.search.store.reader import Reader
from fewbits.search.store.writer import remove_temporary
from fewbits.search.words import make_analyzer, split
from fewbits.storage import FORM_ERRORS, read_json, write_json
from fewbits.validation import evenly_spaced

LOGGER = logging.getLogger("fewbits")

FOLDER, SETTINGS, FORMAT_VERSION = "lexical", "lexical.json", 2
NO_LANGUAGE = "none"  # words are not stemmed
HEAP = 64_000_000  # bytes that the writer holds before it writes a segment
GUESSED_FROM = 500  # texts
VERIFIED = 20  # documents


class LexicalIndex:
    """The words of the documents of one engine: in the engine's folder, in a temporary folder, or in memory.

    One process writes at a time, while it holds the lock of the engine; any number read.
    """

    def __init__(self, folder: Path | None, language: str | None = None) -> None:
        self._folder = folder  # None: in memory
        self._is_temporary = False
        self._language = check_language(language)
        self._lock = threading.RLock()
        self._index: Any = None
        self._analyzers = make_analyzer(None), make_analyzer(None)
        self._writer: Any = None
        self._latest: LexicalSnapshot | None = None
        self._is_damaged = False
        self._verified: set[object] = set()  # files that were compared with their checksums
        self._fields: dict[str, Any] | None = None  # as the settings have them; those of earlier releases do not

    def at(self, version: int, count: int | None = None) -> LexicalSnapshot | None:
        """Return the state of a version of the documents, of which there are ``count``; None if there is none."""
        latest = self._latest
        if latest is None or latest.version != version:
            with self._lock:
                latest = self._reload()
        if latest is None or latest.version != version:
            return None
        if count is not None and len(latest) != count:
            self.discard(f"it has {len(latest):,} documents of {count:,}")
            return None
        return latest

    def latest_version(self) -> int:
        """Return the version of the documents that the index stands for; -1 if it is empty or cannot be read."""
        with self._lock:
            latest = self._reload()
        return -1 if latest is None else latest.version

    def catch_up(self, reader: Reader) -> None:
        """Bring the index to the version of the documents that a reader sees; the caller is the only writer."""
        with self._lock:
            if self.latest_version() != reader.version():
                try:
                    self.stage(reader)
                    self.commit(reader.version())
                except ValueError as error:  # of tantivy, for example of a file that a killed process left
                    LOGGER.warning("The lexical index cannot be changed and is built again: %s", error)
                    self._writer = None
                    self.build(reader)
                finally:
                    self.close()

    def stage(self, reader: Reader) -> None:
        """Prepare what has changed up to the version that a reader sees, for :meth:`commit`."""
        with self._lock:
            present = self.latest_version()
            changed = reader.changed_since(present) if 0 <= present <= reader.version() else None
            if changed is None:
                if self._folder is not None and not self._is_temporary:
                    LOGGER.warning("The lexical index in %s is built from the documents.", self._folder)
                return self._stage_all(reader)
            writer = self._open_writer()
            if len(changed):
                # delete_documents_by_term ignores terms of unsigned fields in tantivy 0.27
                gone = Query.term_set_query(self._index.schema, POSITION, changed.tolist())
                writer.delete_documents_by_query(gone)
                self._add(reader.numbered_texts(changed))
        return None

    def commit(self, version: int) -> None:
        """Make staged changes durable and visible, as those of a version of the documents."""
        with self._lock:
            writer = self._open_writer()
            writer.delete_documents_by_query(Query.exists_query(VERSION))
            document = tantivy.Document()
            document.add_unsigned(VERSION, version)
            writer.add_document(document)
            with panics_as_errors():
                writer.commit()
                self.close()
            self._is_damaged = False
            if self._folder is not None:
                record_files(self._folder, self._verified)
            self._reload()

    def close(self) -> None:
        """Release the writer's lock; changes that were not committed are dropped."""
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.rollback()
                writer.wait_merging_threads()

    def build(self, reader: Reader) -> None:
        """Write the index from all documents, whatever it was before; the caller is the only writer."""
        with self._lock:
            self._reload()  # for its language
            self._is_damaged = True
            try:
                self._stage_all(reader)
                self.commit(reader.version())
            finally:
                self.close()

    def verify(self, reader: Reader) -> str | None:
        """Compare the index with the documents: their number and the words of a sample; return a description of the
        difference, or None."""
        found = self.at(reader.version())
        if found is None:  # it lags, which is not damage
            return None
        if len(found) != reader.count():
            return f"it has {len(found):,} documents of {reader.count():,}"
        positions = reader.all_positions()
        chosen = positions[evenly_spaced(len(positions), VERIFIED)]
        try:
            missing = [number for number, text in reader.numbered_texts(chosen) if not found.contains(number, text)]
        except FewbitsError as error:
            return str(error)
        return f"{len(missing)} of {len(chosen)} documents differ" if missing else None

    def discard(self, why: str) -> None:
        """Treat the index as damaged, so that this process rebuilds it before it is used again."""
        with self._lock:
            self._latest, self._is_damaged = None, True
            LOGGER.warning("The lexical index does not match the documents: %s. %s", why, REBUILD)

    def use_temporary_folder(self) -> None:
        """Use a temporary folder, because the engine's folder is read-only."""
        with self._lock:
            if not self._is_temporary:
                temporary = Path(tempfile.mkdtemp(prefix="fewbits-"))
                finalize(self, remove_temporary, temporary, os.getpid())
                self._is_temporary, self._is_damaged = True, False
                self._folder, self._index, self._latest = temporary / FOLDER, None, None

    def copy_to(self, folder: Path, version: int) -> bool:
        """Copy the index to a folder if it has a version of the documents; return whether it has."""
        with self._lock:
            if self._folder is None or self.at(version) is None:
                return False
            try:
                shutil.copytree(self._folder, folder, ignore=shutil.ignore_patterns(".tantivy-*"))
            except (OSError, shutil.Error):  # changed by another process
                return False
            return LexicalIndex(folder).latest_version() == version

    def size(self) -> int:
        """Return the bytes on disk."""
        if self._folder is None or not self._folder.is_dir():
            return 0
        return sum(path.stat().st_size for path in self._folder.iterdir() if path.is_file())

    def _stage_all(self, reader: Reader) -> None:
        if self._is_damaged or self.latest_version() < 0:
            self._create(
                self._language
                or guess_language(text for _, text in islice(reader.numbered_texts(), GUESSED_FROM))
                or NO_LANGUAGE
            )
        self._open_writer().delete_all_documents()
        self._add(reader.numbered_texts())

    def _add(self, documents: Iterable[tuple[int, str]]) -> None:
        writer = self._open_writer()
        for position, text in documents:
            words, codes, compounds = split(text)
            document = tantivy.Document()
            document.add_unsigned(POSITION, position)
            document.add_text(WORDS, words)
            if codes or compounds:
                document.add_text(CODES, " ".join(codes + compounds))
            writer.add_document(document)

    def _create(self, language: str) -> None:
        """Begin with an empty folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir()  # not its parents: a generation that was replaced stays removed
        self._language, self._index, self._is_damaged = language, self._open(self._folder, language), False
        if self._folder is not None:
            self._fields = fields(self._folder)
            settings = {"format": FORMAT_VERSION, "language": language, "fields": self._fields}
            write_json(self._folder / SETTINGS, settings)

    def _reload(self) -> LexicalSnapshot | None:
        """Return the last commit; None if there is none or it cannot be read."""
        if self._is_damaged or (self._folder is None and self._index is None):
            return None
        try:
            if self._folder is not None and (self._index is None or not (self._folder / SETTINGS).exists()):
                settings = read_json(self._folder / SETTINGS)
                if settings["format"] != FORMAT_VERSION:
                    return None
                self._language = check_language(settings["language"])
                self._fields = settings.get("fields")
                check_files(self._folder, self._fields, self._verified)
                with panics_as_errors():
                    self._index = self._open(self._folder, settings["language"])
            with panics_as_errors():
                self._index.reload()
                latest = LexicalSnapshot(self._index.searcher(), self._index.schema, *self._analyzers)
                self._latest = latest if latest.version >= 0 else None
            if self._folder is not None:  # again: the files of a commit by another process
                check_files(self._folder, self._fields, self._verified)
        except (FewbitsError, OSError, *FORM_ERRORS) as error:
            LOGGER.debug("lexical index in %s: %s", self._folder, error)
            self._index = self._latest = None
        return self._latest

    def _open(self, folder: Path | None, language: str) -> Any:
        stemmed = None if language == NO_LANGUAGE else language
        self._analyzers = make_analyzer(stemmed), make_analyzer(stemmed, without_function_words=True)
        index = tantivy.Index(make_schema(), None if folder is None else str(folder))
        index.config_reader("manual")
        index.register_tokenizer(WORDS, self._analyzers[0])
        index.register_tokenizer(CODES, TextAnalyzerBuilder(Tokenizer.whitespace()).build())
        return index

    def _open_writer(self) -> Any:
        if self._writer is None:
            self._writer = self._index.writer(HEAP, 1)
            self._writer.garbage_collect_files()  # of a killed process, whose names a commit may need
        return self._writer


def check_language(language: str | None) -> str | None:
    """Return a valid language, "none", or None for one that is to be guessed."""
    if language is not None and language not in (*LANGUAGES, NO_LANGUAGE):
        allowed = ", ".join((*LANGUAGES, NO_LANGUAGE))
        raise ParameterError("the language is unknown", allowed=allowed, got=repr(language))
    return language
