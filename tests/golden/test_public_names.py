"""Public names are stable: new ones may be added, none is removed."""

from __future__ import annotations

import json
from typing import Any

import pytest

import fewbits
from fewbits.benchmark.results import Result

from .corpus import HERE
from .names import public_names

GOLDEN: dict[str, Any] = json.loads((HERE / "names.json").read_text())
RESULTS = sorted((HERE.parent.parent / "results").glob("*.json"))


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    return public_names()


def test_every_name_of_the_package_can_be_imported(names: dict[str, Any]) -> None:
    assert set(GOLDEN["python"]) <= set(names["python"])
    assert [name for name in GOLDEN["python"] if not hasattr(fewbits, name)] == []


def test_every_method_has_its_name(names: dict[str, Any]) -> None:
    assert set(GOLDEN["methods"]) <= set(names["methods"])


@pytest.mark.parametrize("command", GOLDEN["commands"])
def test_a_command_has_its_options_and_arguments(command: str, names: dict[str, Any]) -> None:
    assert set(GOLDEN["commands"][command]) <= set(names["commands"][command])


@pytest.mark.parametrize("route", GOLDEN["http"])
def test_a_route_keeps_its_request_and_response_fields(route: str, names: dict[str, Any]) -> None:
    before, now = GOLDEN["http"][route], names["http"][route]
    assert set(before["sent"]) <= set(now["sent"])
    assert set(now["needed"]) <= set(before["needed"])  # no field has become required
    assert set(before["answers"]) <= set(now["answers"])


@pytest.mark.parametrize("estimator", GOLDEN["estimators"])
def test_an_estimator_has_its_parameters_with_their_defaults(estimator: str, names: dict[str, Any]) -> None:
    now = names["estimators"][estimator]
    assert {name: now.get(name) for name in GOLDEN["estimators"][estimator]} == GOLDEN["estimators"][estimator]


def test_the_name_of_a_result_file_follows_from_its_content() -> None:
    assert len(RESULTS) > 1000
    assert [path.name for path in RESULTS if Result.load(path).file_name != path.name] == []
