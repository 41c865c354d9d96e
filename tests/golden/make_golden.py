"""Write the golden files: answers, codes and names of a state of fewbits that later states must still give.

The tests beside this file compare the present code with them. Writing them again is a deliberate act: it declares the
present behaviour to be the right one, so look at the difference before you commit it. From the project's folder:

    python -m tests.golden.make_golden corpus    corpus.jsonl: synthetic documents, from which everything else is made
    python -m tests.golden.make_golden engines   engine/, embeddings-engine/, neural-engine/ and vdsh-engine/
    python -m tests.golden.make_golden answers   answers.json: answers of the saved engines
    python -m tests.golden.make_golden codes     codes.json: codes of every method on the corpus, in one thread
    python -m tests.golden.make_golden names     names.json: the public names
    python -m tests.golden.make_golden results FOLDER
                                                 results.json: from the files <method>-<dataset>.json of a folder, each
                                                 with the "file", "metrics" and "parameters" of a run at 32 bits, seed 0

Engines written again differ in their creation time and in the names of their generations.
"""

from __future__ import annotations

import gc
import json
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fewbits import Document, SearchEngine, TextVectorizer
from fewbits.hashers.registry import make_hasher

from .codes import codes_in_one_thread
from .corpus import HERE, embeddings, make_corpus, read_corpus
from .names import public_names
from .questions import COMMANDS, embedding_cases, query_engine, run_command, text_cases

ENGINES = ("engine", "embeddings-engine", "neural-engine", "vdsh-engine")


def write_corpus() -> None:
    """Write corpus.jsonl."""
    rows = ({"id": d.id, "text": d.text, "labels": d.labels, "metadata": d.metadata} for d in make_corpus())
    (HERE / "corpus.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def write_engines() -> None:
    """Save one engine of each kind; the first is loaded again and changed in its folder."""
    documents = read_corpus()
    notes = {"made by": "make_golden.py", "revision": 1}
    _save("engine", SearchEngine.from_documents(documents[:220], n_bits=64, method="itq", random_state=0, notes=notes))
    engine = SearchEngine.load(HERE / "engine")
    engine.add([*documents[220:], Document("unknown", "xylophones")])
    engine.update([replace(documents[10], text=documents[11].text, labels=("railways",), metadata={"year": 2021})])
    engine.remove(["d020"])
    _settle("engine", engine)

    table = embeddings()
    numbered = [
        Document(n, f"number {n}", (f"group {n % 3}",), {"even": n % 2 == 0, "half": n // 2}) for n in range(40)
    ]
    made = SearchEngine.from_embeddings(table, documents=numbered, n_bits=16, random_state=0)
    _save("embeddings-engine", made)

    neural = make_hasher("bernoulli-vae", 32, 0, hidden=(48,), epochs=20)
    _save("neural-engine", _from_parts("bernoulli-vae", neural, documents[:120]))
    # An odd number of documents: each median is some document's own value, where the rule for equal values decides.
    vdsh = make_hasher("vdsh", 16, 0, hidden=(16, 16), epochs=4)
    _save("vdsh-engine", _from_parts("vdsh", vdsh, documents[:121]))


def _from_parts(method: str, hasher: Any, documents: list[Document]) -> SearchEngine:
    features = TextVectorizer()
    rows = features.fit_transform(document.text for document in documents)
    return SearchEngine.from_fitted(features, hasher.fit(rows), documents, rows, method=method)


def _save(name: str, engine: SearchEngine) -> None:
    shutil.rmtree(HERE / name, ignore_errors=True)
    engine.save(HERE / name)
    _settle(name, engine)


def _settle(name: str, engine: SearchEngine) -> None:
    """Move the write-ahead log into the database, so that the folder can be copied."""
    del engine
    gc.collect()
    [database] = (HERE / name).glob("*/documents.sqlite")
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    (HERE / name / ".lock").unlink(missing_ok=True)


def write_answers() -> None:
    """Query the saved engines, each time a fresh copy."""
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = {name: _answers(name, Path(folder)) for name in ENGINES}
        copy = shutil.copytree(HERE / "engine", Path(folder) / "commands")
        found["commands"] = [{"arguments": one, "lines": run_command(one, copy)} for one in COMMANDS]
    _write("answers.json", found)


def _answers(name: str, folder: Path) -> list[dict[str, Any]]:
    documents = read_corpus()[: {"neural-engine": 120, "vdsh-engine": 121}.get(name)]
    ids = [document.id for document in documents if name != "engine" or document.id != "d020"]
    texts = [document.text for document in documents]
    found = []
    for number, (question, arguments) in enumerate(
        embedding_cases() if name == "embeddings-engine" else text_cases(texts, ids)
    ):
        copy = shutil.copytree(HERE / name, folder / f"{name}-{number}")
        answer = query_engine(SearchEngine.load(copy), question, arguments)
        found.append({"question": question, "arguments": arguments, "answer": answer})
    return found


def write_codes() -> None:
    """Write codes.json."""
    _write("codes.json", codes_in_one_thread())


def write_names() -> None:
    """Write names.json."""
    _write("names.json", public_names())


def write_results(folder: str) -> None:
    """Collect the results of runs into results.json, sorted by method and data set."""
    found = {}
    for path in sorted(Path(folder).glob("*.json")):
        content = json.loads(path.read_text())
        found[path.stem] = {name: content[name] for name in ("file", "metrics", "parameters")}
    _write("results.json", found)


def _write(name: str, content: Mapping[str, Any]) -> None:
    """Write JSON, an entry of a list or of a table in each line."""
    sections = []
    for key, value in content.items():
        if isinstance(value, list):
            rows, ends = [json.dumps(row) for row in value], "[]"
        elif isinstance(value, dict):
            rows, ends = [f"{json.dumps(key)}: {json.dumps(row)}" for key, row in value.items()], "{}"
        else:
            sections.append(f"{json.dumps(key)}: {json.dumps(value)}")
            continue
        inside = ",\n  ".join(rows)
        sections.append(f"{json.dumps(key)}: {ends[0]}\n  {inside}\n {ends[1]}")
    (HERE / name).write_text("{\n " + ",\n ".join(sections) + "\n}\n")


WRITERS: dict[str, Callable[..., None]] = {
    "corpus": write_corpus,
    "engines": write_engines,
    "answers": write_answers,
    "codes": write_codes,
    "names": write_names,
    "results": write_results,
}


def main(arguments: Sequence[str]) -> None:
    """Write the files named by the first argument."""
    if not arguments or arguments[0] not in WRITERS or (len(arguments) == 2) != (arguments[0] == "results"):
        sys.exit(__doc__)
    WRITERS[arguments[0]](*arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
