"""The walls of the house: a room imports from the rooms before it on the way of the data, never from behind it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "fewbits"

# room -> the rooms it may import from
MAY_IMPORT = {
    "errors": set(),
    "files": {"errors"},
    "codes": {"errors"},
    "corpus": {"errors"},
    "features": {"errors", "files"},
    "datasets": {"errors", "corpus", "features"},
    "hashers": {"errors", "files", "codes"},
    "index": {"errors", "files", "codes"},
    "search": {"errors", "files", "codes", "corpus", "features", "hashers", "index"},
    "evaluation": {"errors", "codes", "corpus"},
    "benchmark": {
        "errors",
        "files",
        "codes",
        "corpus",
        "features",
        "datasets",
        "hashers",
        "index",
        "search",
        "evaluation",
    },
    "__main__": {"cli"},
    "cli": {"errors", "codes", "corpus", "features", "datasets", "hashers", "search", "benchmark", "fewbits"},
}


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return path.stem if len(parts) == 1 else parts[0]


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full"
            names = [node.module or ""]
            if node.module == "fewbits":
                names = [
                    f"fewbits.{alias.name}" if (PACKAGE / alias.name).exists() else "fewbits" for alias in node.names
                ]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "fewbits":
                rooms.add(parts[1] if len(parts) > 1 else "fewbits")
    return rooms - {room_of(path)}


SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_rooms_before_its_own(path: Path) -> None:
    room = room_of(path)
    assert room in MAY_IMPORT, f"{room} is a new room: say what it may import"
    behind = imported_rooms(path) - MAY_IMPORT[room]
    assert not behind, f"{path.relative_to(PACKAGE)} imports from {sorted(behind)}"


def test_the_rules_themselves_allow_no_circle() -> None:
    done: set[str] = {"fewbits"}
    while len(done) <= len(MAY_IMPORT):
        ready = {room for room, needed in MAY_IMPORT.items() if room not in done and needed <= done}
        assert ready, f"a circle among {set(MAY_IMPORT) - done}"
        done |= ready


def test_no_module_reads_pickle_or_needs_torch() -> None:
    for path in SOURCES:
        names = {
            alias.name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        assert not names & {"pickle", "joblib", "torch"}, path


def test_the_plan_in_the_documentation_names_every_room() -> None:
    plan = (ROOT / "docs" / "architecture.md").read_text()
    for room in MAY_IMPORT:
        assert f"`{room}/`" in plan or f"`{room}.py`" in plan, room
