"""Import rules: a package imports only from packages of earlier stages, as docs/architecture.md lists them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "fewbits"


def planned_imports() -> dict[str, set[str]]:
    """Read the table of docs/architecture.md: package, content, packages it may import from."""
    plan = {}
    for line in (ROOT / "docs" / "architecture.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            package = cells[0].strip("`").removesuffix(".py").removesuffix("/")
            plan[package] = {name.strip() for name in cells[2].split(",") if name.strip()}
    return plan


MAY_IMPORT = planned_imports()


def package_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return path.stem if len(parts) == 1 else parts[0]


def imported_packages(path: Path) -> set[str]:
    packages = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports must be absolute"
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
                packages.add(parts[1] if len(parts) > 1 else "fewbits")
    return packages - {package_of(path)}


SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_earlier_packages(path: Path) -> None:
    package = package_of(path)
    assert package in MAY_IMPORT, f"{package} is missing in docs/architecture.md"
    forbidden = imported_packages(path) - MAY_IMPORT[package]
    assert not forbidden, f"{path.relative_to(PACKAGE)} imports from {sorted(forbidden)}"


def test_the_import_rules_contain_no_cycle() -> None:
    done: set[str] = {"fewbits"}
    while len(done) <= len(MAY_IMPORT):
        ready = {package for package, needed in MAY_IMPORT.items() if package not in done and needed <= done}
        assert ready, f"a cycle among {set(MAY_IMPORT) - done}"
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


def test_importing_fewbits_and_its_commands_does_not_import_torch() -> None:
    script = """
import sys
import fewbits, fewbits.cli
assert not [name for name in sys.modules if name == "torch" or name.startswith("fewbits.nn")]
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_package_of_the_table_exists() -> None:
    assert len(MAY_IMPORT) > 10
    for package in MAY_IMPORT:
        assert (PACKAGE / package).is_dir() or (PACKAGE / f"{package}.py").is_file(), package
