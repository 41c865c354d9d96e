"""Data sets published as texts: 20 Newsgroups (by-date release), Reuters-21578 (ModApte), arXiv abstracts."""

from __future__ import annotations

import html
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fewbits.data.document import Document
from fewbits.data.io import read_documents
from fewbits.errors import DataError

HEADERS = re.compile(r"(From|Subject):", re.IGNORECASE)


def read_newsgroups(archive: Path) -> Iterator[Document]:
    """Read the messages: id ``group/number``, labelled with the group."""
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile():
                parts = Path(member.name).parts
                if len(parts) < 2:
                    raise DataError(f"{archive} contains {member.name}", allowed="messages in a folder per group")
                group, number = parts[-2:]
                yield Document(f"{group}/{number}", _message(_member_text(tar, member)), (group,))


def _message(raw: str) -> str:
    """Return the body with the From and Subject lines; other headers reveal the group."""
    headers, _, body = raw.partition("\n\n")
    lines = [line for line in headers.split("\n") if HEADERS.match(line)]
    return "\n".join([*lines, body])


STORY = re.compile(r"<REUTERS (?P<attributes>[^>]*)>(?P<content>.*?)</REUTERS>", re.DOTALL)
N_TOPICS = 20


class _Story(NamedTuple):
    id: str
    split: str  # TRAIN or TEST
    topics: tuple[str, ...]
    text: str


def read_reuters(archive: Path) -> Iterator[Document]:
    """Read the documents of the 20 most frequent topics: id NEWID, labelled with those topics."""
    stories = list(_mod_apte_stories(archive))
    usable = _topics(stories, "TRAIN") & _topics(stories, "TEST")
    frequent = _most_frequent((topic for story in stories for topic in story.topics if topic in usable), N_TOPICS)
    for story in stories:
        labels = tuple(topic for topic in story.topics if topic in frequent)
        if labels:
            yield Document(story.id, story.text, labels)


def _topics(stories: list[_Story], split: str) -> set[str]:
    return {topic for story in stories if story.split == split for topic in story.topics}


def _mod_apte_stories(archive: Path) -> Iterator[_Story]:
    for raw in _sgml_files(archive):
        for match in STORY.finditer(raw):
            attributes = dict(re.findall(r'(\w+)="([^"]*)"', match["attributes"]))
            if attributes["TOPICS"] == "YES" and attributes["LEWISSPLIT"] in {"TRAIN", "TEST"}:
                topics = tuple(re.findall(r"<D>(.*?)</D>", _element(match["content"], "TOPICS") or ""))
                yield _Story(attributes["NEWID"], attributes["LEWISSPLIT"], topics, _story_text(match["content"]))


def _story_text(content: str) -> str:
    """Return title and body, or the whole text of a story without either."""
    parts = [part for part in (_element(content, "TITLE"), _element(content, "BODY")) if part is not None]
    return html.unescape("\n".join(parts) if parts else _element(content, "TEXT") or "")


def _element(content: str, tag: str) -> str | None:
    match = re.search(rf"<{tag}[^>]*>(.*?)</{tag}>", content, re.DOTALL)
    return match[1] if match else None


def _sgml_files(archive: Path) -> Iterator[str]:
    with tarfile.open(archive) as tar:
        for member in sorted(tar.getmembers(), key=lambda member: member.name):
            if member.name.endswith(".sgm"):
                yield _member_text(tar, member)


def _member_text(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    stream = tar.extractfile(member)
    assert stream is not None  # a regular file can always be opened
    return stream.read().decode("latin-1")


N_CATEGORIES = 40


def read_arxiv(archive: Path) -> Iterator[Document]:
    """Read titles with abstracts of the 40 most frequent categories, labelled with those categories."""
    # Two passes, so that only one document is in memory at a time
    categories = (category for document in read_all_abstracts(archive) for category in document.labels)
    frequent = _most_frequent(categories, N_CATEGORIES)
    for document in read_all_abstracts(archive):
        labels = tuple(category for category in document.labels if category in frequent)
        if labels:
            yield replace(document, labels=labels)


def _most_frequent(names: Iterable[str], count: int) -> set[str]:
    """Return the most frequent names, in alphabetical order among equals."""
    frequency = Counter(names)
    return set(sorted(frequency, key=lambda name: (-frequency[name], name))[:count])


def read_all_abstracts(archive: Path, text: tuple[str, ...] = ("title", "abstract")) -> Iterator[Document]:
    """Read the documents of all categories, labelled with their categories, the primary one first."""
    return read_documents(archive, text=text, id="id", label="categories", label_separator=" ")
