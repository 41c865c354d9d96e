"""The walls of the house: a room imports from the rooms before it on the way of the data, never from behind it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "fewbits"


def planned_imports() -> dict[str, set[str]]:
    """Read the table of docs/architecture.md: room, what lives there, the rooms it may import from."""
    plan = {}
    for line in (ROOT / "docs" / "architecture.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            room = cells[0].strip("`").removesuffix(".py").removesuffix("/")
            plan[room] = {name.strip() for name in cells[2].split(",") if name.strip()}
    return plan


MAY_IMPORT = planned_imports()


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
    assert room in MAY_IMPORT, f"{room} is a new room: say in docs/architecture.md what it may import"
    behind = imported_rooms(path) - MAY_IMPORT[room]
    assert not behind, f"{path.relative_to(PACKAGE)} imports from {sorted(behind)}"


def test_the_rules_themselves_allow_no_circle() -> None:
    done: set[str] = {"fewbits"}
    while len(done) <= len(MAY_IMPORT):
        ready = {room for room, needed in MAY_IMPORT.items() if room not in done and needed <= done}
        assert ready, f"a circle among {set(MAY_IMPORT) - done}"
        done |= ready


def test_no_module_reads_pickle() -> None:
    for path in SOURCES:
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add((node.module or "").split(".")[0])
        assert not names & {"pickle", "joblib", "marshal", "shelve"}, path


def test_torch_is_imported_by_learning_alone_and_elsewhere_only_when_fitting() -> None:
    script = """
import sys
import fewbits, fewbits.cli
assert not [name for name in sys.modules if name == "torch" or name.startswith("fewbits.nn")]
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_room_of_the_plan_is_there() -> None:
    assert len(MAY_IMPORT) > 10
    for room in MAY_IMPORT:
        assert (PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").is_file(), room
