"""Measure the size and style of a source tree: ``python tools/measure.py [TREE] [--tests FOLDER] [--trace] [--json]``.

A docstring begins with a verb if the first word of its first sentence is in ``verbs.txt``, in the imperative or the
third person ("Return", "Returns"). Words in front of it that end in -ly are skipped ("Safely close"). A word with a
star in the list, which is also a noun, does not count before "of" ("Set of ids"). Docstrings of functions, methods and
properties count; those of modules, classes and overloaded signatures do not.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SMALL = 60  # lines of a module that may be a fragment
_ENTRIES = (Path(__file__).parent / "verbs.txt").read_text().split()
VERBS = frozenset(entry.removesuffix("*") for entry in _ENTRIES)
ALSO_NOUNS = frozenset(entry.removesuffix("*") for entry in _ENTRIES if entry.endswith("*"))


@dataclass(frozen=True)
class Measures:
    """Measures of one source tree; modules are its files other than ``__init__``, code lines exclude docstrings."""

    files: int
    code_lines: int
    module_lines_median: float
    module_lines_95th_percentile: float
    longest_module_lines: int
    modules_under_60_lines: int
    modules_with_one_importer: int
    function_lines_median: float
    function_lines_95th_percentile: float
    longest_function_lines: int
    public_functions_documented: float
    docstrings_that_begin_with_a_verb: float
    most_public_methods: int
    test_lines_per_library_line: float | None


@dataclass(frozen=True)
class Trace:
    """Modules and functions of the package that a call ran through."""

    modules: list[str]
    functions: list[str]


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def begins_with_verb(docstring: str) -> bool:
    """Return whether the first word of a docstring is a verb, by the rule of this module's docstring."""
    words = re.findall(r"[a-z][a-z'-]*", docstring.split("\n\n")[0].lower())
    while words and words[0].endswith("ly") and words[0] not in VERBS:
        words = words[1:]
    if not words:
        return False
    is_noun = words[0] in ALSO_NOUNS and words[1:2] == ["of"]
    return not is_noun and any(form in VERBS for form in _base_forms(words[0]))


def _base_forms(word: str) -> Iterator[str]:
    """Yield a word and what it may be the third person of."""
    yield word
    for ending, replacement in (("ies", "y"), ("es", ""), ("s", "")):
        if word.endswith(ending):
            yield word.removesuffix(ending) + replacement


def measure(tree: Path, tests: Path | None = None) -> Measures:
    """Measure all Python files of a folder; test folders inside it are left out."""
    sources = {path: path.read_text() for path in python_files(tree)}
    parsed = {path: ast.parse(text) for path, text in sources.items()}
    functions = [node for module in parsed.values() for node in ast.walk(module) if isinstance(node, FunctionNode)]
    documented = [docstring for node in functions if (docstring := ast.get_docstring(node)) and not _is_overload(node)]
    public = [node for module in parsed.values() for node in public_functions(module)]
    modules = [text.count("\n") for path, text in sources.items() if path.name != "__init__.py"]
    bodies = [_body_lines(node) for node in functions]
    library_lines = sum(map(code_lines, parsed.values()))
    test_lines = sum(code_lines(ast.parse(path.read_text())) for path in tests.rglob("*.py")) if tests else None
    return Measures(
        files=len(sources),
        code_lines=library_lines,
        module_lines_median=float(np.median(modules)),
        module_lines_95th_percentile=float(np.percentile(modules, 95)),
        longest_module_lines=max(modules),
        modules_under_60_lines=sum(count < SMALL for count in modules),
        modules_with_one_importer=sum(count == 1 for count in importers(parsed, tree).values()),
        function_lines_median=float(np.median(bodies)),
        function_lines_95th_percentile=float(np.percentile(bodies, 95)),
        longest_function_lines=max(bodies),
        public_functions_documented=_share(ast.get_docstring(node) is not None for node in public),
        docstrings_that_begin_with_a_verb=_share(map(begins_with_verb, documented)),
        most_public_methods=max((count for module in parsed.values() for count in public_methods(module)), default=0),
        test_lines_per_library_line=None if test_lines is None else round(test_lines / library_lines, 2),
    )


def python_files(tree: Path) -> list[Path]:
    """List the Python files of a folder that are not tests."""
    found = (path for path in tree.rglob("*.py") if "tests" not in path.relative_to(tree).parts)
    return sorted(found)


def code_lines(module: ast.Module) -> int:
    """Count the lines with code: no blank lines, comments or docstrings."""
    lines: set[int] = set()
    docstrings = {id(node) for node in map(_docstring_node, ast.walk(module)) if node is not None}
    for node in ast.walk(module):
        if isinstance(node, (ast.stmt, ast.expr)) and id(node) not in docstrings:
            end = node.end_lineno or node.lineno
            has_body = isinstance(getattr(node, "body", None), list)
            lines |= {node.lineno} if has_body else set(range(node.lineno, end + 1))
    return len(lines - {line for node in ast.walk(module) if id(node) in docstrings for line in _span(node)})


def public_functions(module: ast.Module) -> Iterator[FunctionNode]:
    """Yield public functions of a module and public methods of its public classes."""
    for node in module.body:
        members = node.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_") else [node]
        yield from (one for one in members if isinstance(one, FunctionNode) and not one.name.startswith("_"))


def public_methods(module: ast.Module) -> Iterator[int]:
    """Yield the number of public methods and properties that each class of a module defines."""
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            yield sum(isinstance(one, FunctionNode) and not one.name.startswith("_") for one in node.body)


def importers(parsed: dict[Path, ast.Module], tree: Path) -> Counter[str]:
    """Count for each module of a package how many others import from it; ``__init__`` files are not counted."""
    names = {path: ".".join((tree.name, *path.relative_to(tree).with_suffix("").parts)) for path in parsed}
    modules = set(names.values())
    counts = Counter({name: 0 for name in modules if not name.endswith("__init__")})
    for path, module in parsed.items():
        targets: set[str] = set()
        for node in ast.walk(module):
            if isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                parts = names[path].split(".")[: -node.level] if node.level else []
                start = ".".join([*parts, *([node.module] if node.module else [])])
                targets |= {start, *(f"{start}.{alias.name}" for alias in node.names)}
        counts.update(targets & set(counts) - {names[path]})
    return counts


def _docstring_node(node: ast.AST) -> ast.stmt | None:
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.body[0] if ast.get_docstring(node) is not None else None
    return None


def _span(node: Any) -> range:
    return range(node.lineno, node.end_lineno + 1)


def _is_overload(node: FunctionNode) -> bool:
    return any(ast.unparse(decorator).endswith("overload") for decorator in node.decorator_list)


def _body_lines(node: FunctionNode) -> int:
    """Count the lines of a function after its signature and docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _share(answers: Any) -> float:
    values = list(answers)
    return round(sum(values) / len(values), 3) if values else 0.0


def trace(call: Callable[[], object]) -> Trace:
    """Run a call and return the modules and functions of fewbits that it enters."""
    import fewbits

    package = Path(fewbits.__file__).parent
    seen: set[CodeType] = set()

    def record(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(None)
    modules, functions = set(), set()
    for code in seen:
        if Path(code.co_filename).is_relative_to(package):
            module = ".".join(Path(code.co_filename).relative_to(package.parent).with_suffix("").parts)
            modules.add(module)
            if not code.co_name.startswith("<"):  # a comprehension is part of its function
                functions.add(f"{module}:{getattr(code, 'co_qualname', code.co_name)}")
    return Trace(sorted(modules), sorted(functions))


def trace_search(method: str) -> Trace:
    """Trace the second query of an engine that was saved and loaded."""
    from fewbits import SearchEngine

    words = ["boat", "harbour", "mast", "wind", "onion", "garlic", "soup", "salt", "star", "planet", "moon", "orbit"]
    texts = [" ".join(words[(number + step) % len(words)] for step in range(4)) for number in range(60)]
    with tempfile.TemporaryDirectory() as folder:
        SearchEngine.from_texts(texts, n_bits=16, method=method).save(Path(folder) / "engine")
        engine = SearchEngine.load(Path(folder) / "engine")
        engine.search("garlic soup", k=5)
        gc.collect()  # a finalizer of the engine that was saved is not part of a search
        return trace(lambda: engine.search("boat in the wind", k=5))


def trace_fit() -> Trace:
    """Trace the fit of a pairwise hasher with labels."""
    from fewbits import PairwiseHasher

    X = np.random.default_rng(0).random((60, 20), dtype=np.float32)
    return trace(lambda: PairwiseHasher(n_bits=8, epochs=2).fit(X, np.arange(60) % 3))


def main(arguments: list[str] | None = None) -> None:
    """Print the measures of a source tree."""
    parser = argparse.ArgumentParser(description="Measure the size and style of a source tree.")
    parser.add_argument("tree", nargs="?", type=Path, default=ROOT / "src" / "fewbits", help="folder of the package")
    parser.add_argument("--tests", type=Path, help="folder of its tests [default: tests beside the default tree]")
    parser.add_argument("--trace", action="store_true", help="list what a search and a fit of fewbits run through")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    tests = options.tests or (ROOT / "tests" if options.tree == ROOT / "src" / "fewbits" else None)
    results: dict[str, Any] = asdict(measure(options.tree, tests))
    traces: dict[str, Trace] = {}
    if options.trace:
        traces = {
            "search, itq": trace_search("itq"),
            "search, bernoulli-vae": trace_search("bernoulli-vae"),
            "PairwiseHasher.fit": trace_fit(),
        }
    if options.json:
        print(json.dumps({**results, "traces": {name: asdict(found) for name, found in traces.items()}}))
        return
    for name, value in results.items():
        print(f"{name.replace('_', ' '):<34} {value}")
    for name, found in traces.items():
        print(f"\n{name}: {len(found.modules)} modules, {len(found.functions)} functions")
        for module in found.modules:
            inside = [function for function in found.functions if function.startswith(f"{module}:")]
            print(f"  {module}: {len(inside)}")


if __name__ == "__main__":
    main()
