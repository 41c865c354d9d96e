"""Attacks by use: long sequences of operations against simple models, and readers beside writers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from attack.outcomes import Attack, Count, Outcome
from fewbits import Document, SearchEngine
from helpers.corpora import tiny_documents
from index.test_index import IndexAgainstBruteForce
from search.test_changes import EngineAgainstDictionary
from search.test_durability import WRITER

STEPS = 50  # per sequence
INDEX_OPERATIONS, ENGINE_OPERATIONS = 980_000, 20_000
READERS, CREW = 2, 20
SECONDS = 600


def operations(name: str, machine: type[Any], number: int, scale: float) -> Outcome:
    """Run random sequences of operations, each of which is compared with what a simple model has."""
    count = Count()
    sequences = max(2, int(number * scale) // STEPS)
    counted = 0

    class Counted(machine):
        def check_invariants(self, *arguments: Any, **options: Any) -> None:
            nonlocal counted
            counted += 1
            super().check_invariants(*arguments, **options)

    options = settings(
        max_examples=sequences,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(Counted, settings=options)
    except Exception as error:
        count.check(False, repr(error))
    return Outcome(name, counted + count.lost, counted, count.lost, {}, tuple(count.failures))


READER = """
import sys
from fewbits import SearchEngine
engine = SearchEngine.load(sys.argv[1])
crew, seen, reads = int(sys.argv[2]), set(), 0
print("ready", flush=True)
while True:
    hits = engine.search("boat", k=crew, labels=["crew"])
    turns = {hit.metadata["turn"] for hit in hits}
    whole = len(hits) == crew and len(turns) == 1 and {hit.text for hit in hits} == {f"boat {max(turns)}"}
    reads += 1
    if not whole or len(engine) not in (60 + crew, 110 + crew):
        print("lost", turns, len(hits), len(engine), flush=True)
    elif turns - seen:
        seen |= turns
        print("seen", reads, max(turns), flush=True)
"""


def readers(scale: float) -> Outcome:
    """Read while another process changes documents: each answer is of one state, whole."""
    count = Count()
    with tempfile.TemporaryDirectory(prefix="fewbits-readers-") as place:
        folder = str(Path(place) / "engine")
        engine = SearchEngine.from_documents(tiny_documents(), n_bits=20, method="itq")
        engine.add([Document(f"crew-{n}", "boat 0", ("crew",), {"turn": 0}) for n in range(CREW)])
        engine.save(folder)
        arguments = [sys.executable, "-c", READER, folder, str(CREW)]
        reading = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(READERS)]
        writing = [sys.executable, "-c", WRITER, folder, str(max(2, SECONDS * scale)), str(CREW)]
        writer = subprocess.Popen(writing, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        turns = int(writer.communicate()[0] or 0)
        count.check(writer.returncode == 0 and turns > 0, "the writer failed")
        reads = 0
        for process in reading:
            count.check(process.poll() is None, "a reader ended")
            process.kill()
            lines = process.communicate()[0].splitlines()
            reads += max((int(line.split()[1]) for line in lines if line.startswith("seen")), default=0)
            for line in lines:
                count.check(not line.startswith("lost"), line)
            count.check(any(line.startswith("seen") for line in lines), "a reader has seen nothing")
    return count.outcome("readers beside a writer", {"changes": 3 * turns, "reads": reads})


INDEX, ENGINE = "operations on an index", "operations on an engine"
ATTACKS = [
    Attack("readers beside a writer", "use", readers),
    Attack(ENGINE, "use", partial(operations, ENGINE, EngineAgainstDictionary, ENGINE_OPERATIONS)),
    Attack(INDEX, "use", partial(operations, INDEX, IndexAgainstBruteForce, INDEX_OPERATIONS)),
]
