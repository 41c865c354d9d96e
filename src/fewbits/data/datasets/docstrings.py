"""The default corpus: docstrings of the Python standard library and of the packages that fewbits depends on.

This is real text that exists on every machine, without downloads or licence questions. Sources are parsed with
``ast``, never imported.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sysconfig
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from fewbits.data.document import Document

MINIMUM_WORDS = 8
STANDARD_LIBRARY = "python"
SKIPPED_FOLDERS = frozenset({"tests", "test", "testing", "idlelib", "lib2to3", "turtledemo", "site-packages"})
DISTRIBUTION = re.compile(r"[A-Za-z0-9._-]+")  # the name at the start of a requirement
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def read_docstrings() -> Iterator[Document]:
    """Read the default corpus: id ``package.module.name``, labelled by package and by module."""
    names: set[str] = set()
    texts: set[str] = set()
    for package, root, path in _sources():
        for name, text in _docstrings(path, _module_name(path, root)):
            # Duplicate texts would inflate every precision; a name occurs twice if a module defines it per platform.
            if name not in names and text not in texts and len(text.split()) >= MINIMUM_WORDS:
                names.add(name)
                texts.add(text)
                yield Document(name, text, (package, _module_label(package, name)))


def _sources() -> Iterator[tuple[str, Path, Path]]:
    """Yield package, folder from which module names are derived, and source file."""
    library = Path(sysconfig.get_path("stdlib"))
    roots = [(STANDARD_LIBRARY, library, library), *_dependencies()]
    for package, base, start in roots:
        for path in sorted(start.rglob("*.py")):
            inside = path.relative_to(base).parts
            if not any(part in SKIPPED_FOLDERS or part.startswith("_") for part in inside[:-1]):
                yield package, base, path


def _dependencies() -> Iterator[tuple[str, Path, Path]]:
    """Yield name, parent folder and folder of the installed packages that fewbits requires, without importing them."""
    for requirement in metadata.requires("fewbits") or []:
        if "extra ==" in requirement:
            continue
        name = DISTRIBUTION.match(requirement)
        for top_level in _top_level_packages(name[0]) if name else []:
            spec = importlib.util.find_spec(top_level)
            if spec and spec.origin and spec.submodule_search_locations:
                folder = Path(spec.origin).parent
                yield top_level, folder.parent, folder


def _top_level_packages(distribution: str) -> list[str]:
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:  # required only by other versions of Python
        return []
    return sorted({file.parts[0] for file in files if len(file.parts) == 2 and file.name == "__init__.py"})


def _module_name(path: Path, base: Path) -> str:
    parts = path.relative_to(base).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _module_label(package: str, name: str) -> str:
    """Return the label of a module: two levels such as ``scipy.stats``, in the standard library one."""
    return name.split(".")[0] if package == STANDARD_LIBRARY else ".".join(name.split(".")[:2])


def _docstrings(path: Path, module: str) -> Iterator[tuple[str, str]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # a source for another version of Python
        return
    yield from _documented(tree, module)


def _documented(node: Documented, name: str) -> Iterator[tuple[str, str]]:
    if text := ast.get_docstring(node):
        yield name, text
    for child in node.body:
        if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and child.name[0] != "_":
            yield from _documented(child, f"{name}.{child.name}")
