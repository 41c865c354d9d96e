"""Damaged and hostile folders: what is altered is detected when it is read, and nothing in it is run."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbits import Document, SearchEngine
from fewbits.errors import BrokenFolderError, FewbitsError
from fewbits.storage import _checksum

SCRIPT_OF_CHANGES = """
import os, sys
from fewbits import Document, SearchEngine
engine = SearchEngine.load(sys.argv[1])
for number in range(50):
    engine.add([Document(f"crew-{number}", "boat crew")])
os._exit(0)  # as if killed: the write-ahead log stays
"""


@pytest.fixture
def saved(documents: list[Document], tmp_path: Path) -> Path:
    with_metadata = [
        Document(one.id, one.text, one.labels, {"year": 1990 + number}) for number, one in enumerate(documents)
    ]
    SearchEngine.from_documents(with_metadata, n_bits=20, method="itq").save(tmp_path / "engine")
    return tmp_path / "engine"


def database_of(folder: Path) -> Path:
    return next(folder.glob("generation-*/documents.sqlite"))


def alter(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database_of(folder))) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def sign(folder: Path, **changes: Any) -> None:
    """Alter the manifest, and compute its checksum as its author can."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest.update(changes)
    del manifest["checksum"]
    (folder / "manifest.json").write_text(json.dumps({**manifest, "checksum": _checksum(manifest)}))


def sign_file(folder: Path, name: str, content: bytes) -> None:
    """Replace a file, and the size and checksum that the manifest has of it."""
    import hashlib

    path = next(folder.glob("generation-*")) / name
    path.write_bytes(content)
    files = json.loads((folder / "manifest.json").read_text())["files"]
    facts = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    sign(folder, files={**files, name: facts})


ALTERED = {
    "a text": "UPDATE documents SET text = replace(text, 'boat', 'goat') WHERE position = 2",
    "labels of a document": "UPDATE documents SET labels = '[\"astronomy\"]' WHERE position = 2",
    "the flag of a new document": "UPDATE documents SET is_new = 1 WHERE position = 2",
    "the number of a document": "UPDATE documents SET position = 999 WHERE position = 2",
    "the table of labels": "UPDATE labels SET label = 'astronomy' WHERE position = 2",
    "a missing label": "DELETE FROM labels WHERE position = 2",
    "the table of metadata": "UPDATE facets SET value = 1990 WHERE position = 2",
    "the numbers of metadata": "UPDATE facets SET position = 999 WHERE position = 2",
    "a code": "UPDATE codes SET code = (SELECT code FROM codes WHERE position = 3) WHERE position = 2",
    "a missing code": "DELETE FROM codes WHERE position = 2",
    "words": "UPDATE words SET words = zeroblob(length(words)) WHERE position = 2",
    "a missing document": "DELETE FROM documents WHERE position = 2",
    "the version": "UPDATE state SET value = value + 1 WHERE name = 'version'",
    "a sum": "UPDATE sums SET sum = sum + 1 WHERE name = 'sailing'",
}
READ: dict[str, Callable[[SearchEngine], object]] = {
    "the table of labels": lambda engine: engine.search("boat", labels=["astronomy"]),
    "a missing label": lambda engine: engine.search("boat", labels=["sailing"]),
    "a sum": lambda engine: engine.search("boat", labels=["sailing"]),
    "the table of metadata": lambda engine: engine.search("boat", where=["year=1990"]),
    "the numbers of metadata": lambda engine: engine.search("boat", where=["year=1991"]),
    "words": lambda engine: engine.duplicates(20, 0.1),
}


def read_all(engine: SearchEngine) -> object:
    return [*engine.documents(), *engine.search("boat wind", k=60)]


@pytest.mark.parametrize("what", ALTERED)
def test_a_verified_load_detects_altered(saved: Path, what: str) -> None:
    alter(saved, ALTERED[what])
    with pytest.raises(BrokenFolderError):
        SearchEngine.load(saved)


@pytest.mark.parametrize("what", ALTERED)
def test_a_quick_load_detects_when_it_reads_altered(saved: Path, what: str) -> None:
    alter(saved, ALTERED[what])
    read = READ.get(what, read_all)
    with pytest.raises(BrokenFolderError):
        read(SearchEngine.load(saved, verify=False))


def test_an_id_that_the_index_of_ids_lacks_is_not_taken_for_unknown(saved: Path) -> None:
    path = database_of(saved)
    content = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_documents_1'"
        [[page]] = connection.execute(query).fetchall()
    start = content.index(b"sailing-1", (page - 1) * 4096)
    content[start] ^= 1
    path.write_bytes(content)
    engine = SearchEngine.load(saved, verify=False)
    with pytest.raises(BrokenFolderError, match="index of the ids"):
        assert "sailing-1" in engine
    with pytest.raises(BrokenFolderError):
        SearchEngine.load(saved)


@pytest.mark.parametrize("verify", [True, False])
def test_a_damaged_write_ahead_log_does_not_lose_committed_changes_silently(saved: Path, verify: bool) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT_OF_CHANGES, str(saved)], check=True)
    shutil.copytree(saved, saved.with_name("whole"))
    assert len(SearchEngine.load(saved.with_name("whole"), verify=verify)) == 110
    log = database_of(saved).with_name("documents.sqlite-wal")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    with pytest.raises(BrokenFolderError, match="changes that were committed"):
        SearchEngine.load(saved, verify=verify)


def test_a_damaged_lexical_index_is_built_again_before_it_answers(saved: Path) -> None:
    expected = SearchEngine.load(saved).search("boat in the wind", k=60, rank="words")
    for path in next(saved.glob("generation-*/lexical")).iterdir():
        if path.suffix in (".term", ".fieldnorm"):
            content = bytearray(path.read_bytes())
            content[len(content) // 4] ^= 1
            path.write_bytes(content)
    assert SearchEngine.load(saved, verify=False).search("boat in the wind", k=60, rank="words") == expected


def test_what_an_earlier_release_saved_is_protected_when_it_is_saved_again(tmp_path: Path) -> None:
    golden = Path(__file__).parents[1] / "golden" / "engine"
    shutil.copytree(golden, tmp_path / "old")
    old = SearchEngine.load(tmp_path / "old")
    old.save(tmp_path / "new")
    new = SearchEngine.load(tmp_path / "new")
    assert list(new.documents()) == list(old.documents())
    assert new.info() == old.info()
    alter(tmp_path / "new", "DELETE FROM labels WHERE position = 2")
    with pytest.raises(BrokenFolderError):
        SearchEngine.load(tmp_path / "new")


def test_an_engine_of_an_earlier_release_can_be_changed_in_place(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[1] / "golden" / "engine", tmp_path / "old")
    engine = SearchEngine.load(tmp_path / "old")
    before = list(engine.documents())
    engine.add([Document("added", before[0].text, ("label",), {"year": 2001})])
    engine.update([Document(before[1].id, "other words")])
    engine.remove([before[0].id])
    again = SearchEngine.load(tmp_path / "old")
    assert [one.id for one in again.documents()] == [*(one.id for one in before[1:]), "added"]


def run_with_a_time_limit(folder: Path) -> str:
    script = """
import sys
from fewbits import SearchEngine
from fewbits.errors import FewbitsError
try:
    engine = SearchEngine.load(sys.argv[1], verify=sys.argv[2] == "True")
    engine.search("boat"); list(engine.documents()); engine.info()
    print("no error")
except FewbitsError as error:
    print(type(error).__name__, error)
"""
    outputs = []
    for verify in (True, False):
        arguments = [sys.executable, "-c", script, str(folder), str(verify)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=300)
        assert "Traceback" not in done.stderr, done.stderr
        outputs.append(done.stdout)
    assert all(output.startswith("BrokenFolderError") for output in outputs), outputs
    return outputs[0]


def test_a_view_in_place_of_a_table_is_not_run(saved: Path) -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS name, x AS value FROM n"
    alter(saved, "DROP TABLE state", f"CREATE VIEW state AS {endless}")
    assert "schema differs" in run_with_a_time_limit(saved) or "was altered" in run_with_a_time_limit(saved)


def test_a_trigger_is_not_run(saved: Path) -> None:
    alter(saved, "CREATE TRIGGER spy AFTER INSERT ON documents BEGIN DELETE FROM codes; END")
    with pytest.raises(BrokenFolderError, match="schema differs"):
        SearchEngine.load(saved, verify=False)


@pytest.mark.parametrize("generation", ["../elsewhere", "/etc", "generation-0123456789ab/..", 7, None, []])
def test_a_generation_outside_the_folder_is_refused(saved: Path, generation: object) -> None:
    shutil.copytree(next(saved.glob("generation-*")), saved.with_name("elsewhere"))
    sign(saved, generation=generation)
    with pytest.raises(BrokenFolderError, match=r"manifest.json is not valid"):
        SearchEngine.load(saved)


def test_a_link_out_of_the_folder_is_refused(saved: Path) -> None:
    outside = shutil.move(database_of(saved), saved.with_name("outside.sqlite"))
    database_of_name = next(saved.glob("generation-*")) / "documents.sqlite"
    database_of_name.symlink_to(outside)
    with pytest.raises(BrokenFolderError, match="is a link to another place"):
        SearchEngine.load(saved, verify=False)


@pytest.mark.parametrize(
    "files", [[], {"../engine/manifest.json": {}}, {"engine.json": 1}, {"engine.json": {"bytes": "1"}}, None]
)
def test_a_manifest_with_other_files_is_refused(saved: Path, files: object) -> None:
    sign(saved, files=files)
    with pytest.raises(BrokenFolderError, match=r"manifest.json is not valid"):
        SearchEngine.load(saved)


def npy_header(shape: tuple[int, ...]) -> bytes:
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape!r}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


def safetensors_header(header: dict[str, object]) -> bytes:
    content = json.dumps(header).encode()
    return len(content).to_bytes(8, "little") + content


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("engine.json", b"{}"),
        ("engine.json", b"[1]"),
        ("engine.json", b"[" * 100_000),
        ("engine.json", b'{"features": "text", "documents_learnt_from": 1' + b"0" * 5_000 + b"}"),
        ("hasher/kind.json", b'{"hasher": 7}'),
        ("hasher/hasher.json", b'{"parameters": {"n_bits": 1000000000000}, "n_features": -1, "format_version": 2}'),
        ("hasher/hasher.json", b'{"parameters": {"bits": 20}, "n_features": 1, "format_version": 2}'),
        ("hasher/hasher.safetensors", b""),
        ("hasher/hasher.safetensors", safetensors_header({})),
        (
            "hasher/hasher.safetensors",
            safetensors_header({"weights": {"dtype": "F32", "shape": [2**40, 2**20], "data_offsets": [0, 2**62]}}),
        ),
        ("features/vectorizer.json", b'{"settings": {"max_features": 5}, "vocabulary": 3}'),
        (
            "features/idf.safetensors",
            safetensors_header({"idf": {"dtype": "F8_E4M3", "shape": [0], "data_offsets": [0, 0]}}),
        ),
    ],
)
def test_a_signed_file_of_another_form_is_a_clear_error(saved: Path, name: str, content: bytes) -> None:
    sign_file(saved, name, content)
    for verify in (True, False):
        with pytest.raises(FewbitsError):
            SearchEngine.load(saved, verify=verify).search("boat in the wind")


def test_arrays_of_the_wrong_shape_are_a_clear_error(saved: Path) -> None:
    from safetensors.numpy import load_file, save

    path = next(saved.glob("generation-*/hasher/hasher.safetensors"))
    arrays = {name: values[..., :-1].copy() for name, values in load_file(path).items()}
    sign_file(saved, "hasher/hasher.safetensors", save(arrays))
    with pytest.raises(BrokenFolderError, match="arrays of the wrong shape"):
        SearchEngine.load(saved)


def test_an_array_whose_header_claims_more_than_the_file_has_is_a_clear_error(tmp_path: Path) -> None:
    from fewbits.storage import read_array

    for shape in ((2**62,), (2**31, 2**31), (7,)):
        (tmp_path / "array.npy").write_bytes(npy_header(shape))
        with pytest.raises(BrokenFolderError, match=r"not a valid \.npy file"):
            read_array(tmp_path / "array.npy")


def test_a_forked_process_that_ends_leaves_the_documents_of_its_parent() -> None:
    script = """
import os, sys
from fewbits import SearchEngine
from helpers.corpora import tiny_documents
engine = SearchEngine.from_documents(tiny_documents(), n_bits=20, method="itq")
expected = engine.search("boat", k=5)
child = os.fork()
if child == 0:
    assert engine.search("boat", k=5) == expected
    del engine
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert engine.search("boat", k=5) == expected
assert engine.remove(["cooking-0"]) == 1 and len(list(engine.documents())) == 59
print("whole")
"""
    tests = Path(__file__).parent.parent  # where helpers is found
    done = subprocess.run([sys.executable, "-c", script], cwd=tests, capture_output=True, text=True, check=False)
    assert done.stdout == "whole\n", done.stderr


def test_positions_that_would_need_all_memory_are_refused(saved: Path) -> None:
    alter(saved, f"UPDATE codes SET position = {2**40} WHERE position = 2")
    with pytest.raises(BrokenFolderError):
        SearchEngine.load(saved, verify=False).search("boat")


def test_codes_have_the_sum_of_their_rows_whatever_the_order() -> None:
    from fewbits.search.store.checksums import codes_sum, rows_sum, total

    generator = np.random.default_rng(0)
    positions, codes = np.arange(1, 200), generator.integers(0, 256, (199, 13), dtype=np.uint8)
    order = generator.permutation(199)
    assert codes_sum(positions, codes) == codes_sum(positions[order], codes[order])
    parts = total(codes_sum(positions[:50], codes[:50]), codes_sum(positions[50:], codes[50:]))
    assert total(codes_sum(positions, codes)) == parts
    for row in range(0, 199, 20):
        for bit in range(8):
            changed = codes.copy()
            changed[row, bit] ^= 1 << bit
            assert codes_sum(positions, changed) != codes_sum(positions, codes)
    assert rows_sum(["a", "b"], [1, 2]) == rows_sum(["b", "a"], [2, 1]) != rows_sum(["a", "b"], [2, 1])
