"""The names that users have in their programs: of Python, of the command line, and of HTTP."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any

import typer

import fewbits
from fewbits import Embeddings, TextVectorizer
from fewbits.cli import app
from fewbits.hashers.registry import HASHERS, METHODS

from .corpus import HERE

OPENAPI = HERE.parent.parent / "docs" / "openapi.json"


def public_names() -> dict[str, Any]:
    """Return all public names of the present code."""
    return {
        "python": sorted(fewbits.__all__),
        "methods": list(METHODS),
        "commands": {" ".join(path): names for path, names in sorted(_commands(typer.main.get_command(app)))},
        "http": http_fields(),
        "estimators": estimator_parameters(),
    }


def _commands(command: Any, path: tuple[str, ...] = ("fewbits",)) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Walk through a command and those below it: their paths, and the names of their options and arguments."""
    names: set[str] = set()
    for parameter in command.params:
        is_option = parameter.param_type_name == "option"
        names |= {*parameter.opts, *parameter.secondary_opts} if is_option else {f"<{parameter.name}>"}
    yield path, sorted(names)
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands(below, (*path, name))


def http_fields() -> dict[str, dict[str, list[str]]]:
    """Return the fields of requests, the required ones, and those of responses, per path and verb, as dotted names."""
    described = json.loads(OPENAPI.read_text())
    found = {}
    for path, verbs in described["paths"].items():
        for verb, operation in verbs.items():
            sent = [f"{one['in']}:{one['name']}" for one in operation.get("parameters", [])]
            needed = [f"{one['in']}:{one['name']}" for one in operation.get("parameters", []) if one.get("required")]
            for content in operation.get("requestBody", {}).get("content", {}).values():
                sent += _fields(content["schema"], described)
                needed += _fields(content["schema"], described, only_required=True)
            answers = [
                f"{status} {kind} {field}".strip()
                for status, answer in operation["responses"].items()
                for kind, content in answer.get("content", {}).items()
                for field in ["", *_fields(content.get("schema", {}), described)]
            ]
            found[f"{verb} {path}"] = {"sent": sorted(sent), "needed": sorted(needed), "answers": sorted(answers)}
    return found


def _fields(schema: dict[str, Any], described: dict[str, Any], *, only_required: bool = False) -> list[str]:
    """List the fields of a schema and of those inside it."""
    if "$ref" in schema:
        named = described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return _fields(named, described, only_required=only_required)
    found = []
    for one in (*schema.get("anyOf", []), *([schema["items"]] if "items" in schema else [])):
        found += _fields(one, described, only_required=only_required)
    for name, inside in schema.get("properties", {}).items():
        if not only_required or name in schema.get("required", []):
            found += [name, *(f"{name}.{below}" for below in _fields(inside, described, only_required=only_required))]
    return found


def estimator_parameters() -> dict[str, dict[str, str]]:
    """Return the parameters of each estimator's constructor with their defaults."""
    estimators = {**HASHERS, "TextVectorizer": TextVectorizer, "Embeddings": Embeddings}
    return {
        name: {one.name: repr(one.default) for one in inspect.signature(estimator).parameters.values()}
        for name, estimator in estimators.items()
    }
