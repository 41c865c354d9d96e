"""Prints the description of the service: python -m fewbits.server.describe > docs/openapi.json."""

from __future__ import annotations

import json

from fewbits.search import SearchEngine
from fewbits.server.app import create_app


def description() -> str:
    """What /openapi.json says, which is the same for every engine."""
    engine = SearchEngine.from_texts(["a word", "another word"], n_bits=8, method="lsh")
    return json.dumps(create_app(engine).openapi(), indent=1) + "\n"


if __name__ == "__main__":
    print(description(), end="")
