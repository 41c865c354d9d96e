"""Documents as JSON Lines, to be read again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fewbits.corpus.document import Document
from fewbits.files import replacing


def write_documents(path: Path, documents: Iterable[Document]) -> int:
    """Write a JSON object a line, the whole file or nothing, and return how many.

    The fields are id, text, labels and those of the metadata.
    """
    count = 0
    with replacing(Path(path)) as stream:
        for document in documents:
            stream.write((json.dumps(_record(document), ensure_ascii=False) + "\n").encode())
            count += 1
    return count


def _record(document: Document) -> dict[str, Any]:
    own = {"id": document.id, "text": document.text, "labels": list(document.labels)}
    return {**document.metadata, **own}
