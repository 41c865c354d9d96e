"""20 Newsgroups, the by-date release: one message a file, in a folder for each group."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from fewbits.corpus.document import Document
from fewbits.errors import DataError

KEPT_HEADERS = re.compile(r"(From|Subject):", re.IGNORECASE)


def read_newsgroups(archive: Path) -> Iterator[Document]:
    """Read every message: id ``group/number``, labelled by its group."""
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile():
                parts = Path(member.name).parts
                if len(parts) < 2:
                    raise DataError(f"{archive} holds {member.name}", allowed="messages in a folder for each group")
                group, number = parts[-2:]
                stream = tar.extractfile(member)
                assert stream is not None  # a regular file always opens
                yield Document(f"{group}/{number}", _message(stream.read().decode("latin-1")), (group,))


def _message(raw: str) -> str:
    """Keep the body, and of the headers the From and Subject lines: the others name the group."""
    headers, _, body = raw.partition("\n\n")
    kept = [line for line in headers.split("\n") if KEPT_HEADERS.match(line)]
    return "\n".join([*kept, body])
