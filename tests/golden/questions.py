"""Queries of the saved engines, and their answers in a form that can be compared."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from fewbits import Document, Explanation, Hit, SearchEngine
from fewbits.cli import app
from fewbits.errors import FewbitsError

from .corpus import embeddings, read_corpus

Case = tuple[str, dict[str, Any]]  # a question, and its arguments
TEXTS = (
    "simmer onion and garlic soup with herbs",
    "a boat in the harbour",
    "telescope",
    "Star, moon and planet: light!",
)


def query_engine(engine: SearchEngine, question: str, arguments: dict[str, Any]) -> Any:
    """Query an engine, and return its answer as JSON, or the type of its error."""
    try:
        return json.loads(json.dumps(QUESTIONS[question](engine, **arguments)))
    except FewbitsError as error:
        return {"error": type(error).__name__}


def _hits(hits: Iterable[Hit]) -> list[dict[str, Any]]:
    return [
        {
            "id": hit.id,
            "distance": hit.distance,
            "score": round(hit.score, 6),
            "labels": hit.labels,
            "metadata": hit.metadata,
            "text": zlib.crc32(hit.text.encode()),
        }
        for hit in hits
    ]


def _search_many(engine: SearchEngine, **arguments: Any) -> list[Any]:
    answers = engine.search_many(**arguments)
    return [{"error": type(one).__name__} if isinstance(one, FewbitsError) else _hits(one) for one in answers]


def _explanation(found: Explanation) -> dict[str, Any]:
    def words(some: Iterable[Any]) -> list[Any]:
        return [[one.word, round(one.weight, 6)] for one in some]

    def of_bit(one: Any) -> list[Any]:
        return [one.bit, one.raises, one.lowers, words(one.query_words), words(one.hit_words)]

    return {
        "id": found.id,
        "distance": found.distance,
        "cosine": found.cosine,
        "shared_words": words(found.shared_words),
        "bits": [[one.bit, one.query, one.hit, one.agrees, one.importance] for one in found.bits],
        "agreeing": [of_bit(one) for one in found.agreeing[:4]],
        "differing": [of_bit(one) for one in found.differing[:4]],
    }


def _info(engine: SearchEngine) -> dict[str, Any]:
    info = {name: value for name, value in engine.info().items() if name not in ("created", "fewbits")}
    del info["drift"]["advice"]  # a sentence, whose wording may change
    return info


def _change(engine: SearchEngine, **then: Any) -> Any:
    """Change the engine, then query it; ``then`` are the arguments of the search."""
    documents = read_corpus()
    added = engine.add(
        [Document("e1", documents[5].text, ("railways",), {"year": 1999}), Document("e2", "comet orbit")]
    )
    updated = engine.update([replace(documents[1], text=documents[7].text)])
    removed = engine.remove(["d002", "d003"])
    queried = (
        _info(engine)["drift"],
        query_engine(engine, "search", then),
        query_engine(engine, "similar", {"id": "e1", "k": 5}),
    )
    return [added, updated, removed, len(engine), *queried]


QUESTIONS: dict[str, Callable[..., Any]] = {
    "search": lambda engine, **arguments: _hits(engine.search(**arguments)),
    "within": lambda engine, **arguments: _hits(engine.within(**arguments)),
    "similar": lambda engine, **arguments: _hits(engine.similar(**arguments)),
    "search_many": _search_many,
    "explain": lambda engine, **arguments: _explanation(engine.explain(**arguments)),
    "explain_similar": lambda engine, id, other: _explanation(engine.explain(None, other, similar_to=id)),
    "bits": lambda engine: [[one.bit, one.raises, one.lowers] for one in engine.bits()],
    "duplicates": lambda engine, **arguments: [
        [group.representative, *group.others] for group in engine.duplicates(**arguments)
    ],
    "encode": lambda engine, inputs: [code.tobytes().hex() for code in engine.encode(inputs)],
    "codes": lambda engine, ids: [code.tobytes().hex() for code in engine.codes(ids)],
    "info": _info,
    "change": _change,
}


def text_cases(all_texts: Sequence[str], ids: Sequence[Any]) -> list[Case]:
    """Return the queries of an engine of texts."""
    first, boat, *_ = TEXTS
    filters: list[dict[str, Any]] = [
        {"labels": ["sailing"]},
        {"labels": ["sailing", "music"], "where": ["year>=2010"]},
        {"where": ["source=letters", "year<2012"]},
        {"labels": ["no such label"]},
    ]
    return [
        *(("search", {"query": text, "rescore": way}) for text in TEXTS for way in (None, "none", "bits", "words")),
        *(("search", {"query": boat, "k": 6, **some}) for some in filters),
        *(("search", {"query": boat, "k": 6, "rescore": way, **filters[1]}) for way in ("none", "bits")),
        ("search", {"query": boat, "k": 4, "among": ["d000", "d002", "d008", "d014", "d031", "d044", "d050"]}),
        *(("search", {"query": first, "k": k, "shortlist": shortlist}) for k, shortlist in ((3, 5), (5, 20), (5, 5))),
        ("search", {"query": "xylophones"}),
        ("search", {"query": first, "k": 0}),
        ("within", {"query": first, "radius": 12}),
        ("within", {"query": boat, "radius": 16, "labels": ["sailing"], "where": ["year>2005"]}),
        ("within", {"query": boat, "radius": 32, "among": ["d002", "d008", "d014"]}),
        *(("similar", {"id": "d004", "k": 6, "rescore": way}) for way in (None, "bits", "words")),
        ("similar", {"id": "d014", "labels": ["cooking"], "where": ["year>=2003"]}),
        ("similar", {"id": "nobody"}),
        *(
            ("search_many", {"queries": [*TEXTS, "xylophones"], "k": 3, "rescore": way})
            for way in ("none", "bits", None)
        ),
        ("search_many", {"queries": TEXTS, "k": 3, "shortlist": 10, "labels": ["sailing"], "where": ["year>2002"]}),
        ("explain", {"query": first, "id": "d000"}),
        ("explain", {"query": boat, "id": "d008"}),
        ("explain_similar", {"id": "d000", "other": "d014"}),
        ("bits", {}),
        *(
            ("duplicates", {"radius": radius, "alike": alike})
            for radius, alike in ((3, 0.8), (10, 0.9), (2, 0.0), (8, 0.5))
        ),
        ("encode", {"inputs": list(all_texts)}),
        ("codes", {"ids": list(ids)}),
        ("info", {}),
        ("change", {"query": first, "k": 5}),
    ]


def embedding_cases() -> list[Case]:
    """Return the queries of an engine of embeddings."""
    table = embeddings()
    query = (table[4] + 0.5 * table[9]).round(4).tolist()
    return [
        *(("search", {"query": query, "k": 5, "rescore": way}) for way in (None, "none", "bits", "words")),
        ("search", {"query": query, "k": 3, "labels": ["group 1"], "where": ["even=true"]}),
        ("search", {"query": query, "k": 3, "labels": ["group 1", "group 2"], "where": ["half>=5"]}),
        ("search", {"query": query, "k": 2, "among": [1, 5, 8, 30]}),
        ("within", {"query": query, "radius": 5}),
        ("similar", {"id": 7, "k": 5}),
        ("similar", {"id": 7, "k": 5, "rescore": "bits"}),
        ("search_many", {"queries": ["a text"]}),
        ("bits", {}),
        *(("duplicates", {"radius": radius}) for radius in (2, 4)),
        ("encode", {"inputs": table.tolist()}),
        ("codes", {"ids": list(range(40))}),
        ("info", {}),
    ]


COMMANDS = [
    ["search", "ENGINE", TEXTS[0], "-k", "3", "--json"],
    ["search", "ENGINE", TEXTS[1], "--radius", "16", "--label", "sailing", "--where", "year>2005", "--json"],
    ["similar", "ENGINE", "d004", "-k", "3", "--rescore", "words", "--json"],
    ["bits", "ENGINE", "--json"],
    ["duplicates", "ENGINE", "--radius", "10", "--json"],
    ["encode", "ENGINE", TEXTS[0]],
]


def run_command(arguments: Sequence[str], engine: Path) -> list[Any]:
    """Run a command on an engine and return the lines that it prints, read as JSON where they are JSON."""
    done = CliRunner().invoke(app, [str(engine) if one == "ENGINE" else one for one in arguments])
    if done.exception is not None:
        raise done.exception
    return [json.loads(line) if line.startswith(("{", "[")) else line for line in done.stdout.splitlines()]
