"""The corpora of the suite generalisation, and its page: ranks of the methods and deficits of the defaults."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from fewbits import Dataset
from fewbits.benchmark.report.generalisation import render_generalisation, render_tables
from fewbits.benchmark.report.tables import render_results
from fewbits.benchmark.results import Store
from fewbits.benchmark.spec import load_suite
from fewbits.data.datasets import CORPORA, GENERALISATION_SOURCES, HALVES, find_source
from fewbits.data.datasets.generalisation import half_of
from helpers.results import make_result

CORPORA_FROM_ARXIV = ("ax500c", "ax500f", "ax1500c", "titles1500")
SIZES = {"ax500c": (380, 110), "ax500f": (300, 72), "ax1500c": (1206, 289), "reuterstenth": (806, 179)}


def test_both_halves_have_corpora_and_every_corpus_is_in_the_suite() -> None:
    counts = [sum(corpus.half == half for corpus in CORPORA.values()) for half in HALVES]
    assert min(counts) >= 8
    assert {spec.dataset for spec in load_suite("generalisation").specs} == set(GENERALISATION_SOURCES)


def test_a_document_belongs_to_one_half_by_its_id_alone() -> None:
    halves = [half_of(f"sci.space/{number}") for number in range(1000)]
    assert halves == [half_of(f"sci.space/{number}") for number in range(1000)]
    assert 400 < halves.count("A") < 600


@pytest.mark.xdist_group("archives")
@pytest.mark.parametrize("name", SIZES)
def test_a_corpus_has_its_documents_and_queries(benchmark_set: Callable[[str], Dataset], name: str) -> None:
    dataset = benchmark_set(f"general-{name}")
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (SIZES[name][0], 0, SIZES[name][1])


@pytest.mark.xdist_group("archives")
def test_no_document_of_arxiv_is_in_corpora_of_both_halves(benchmark_set: Callable[[str], Dataset]) -> None:
    ids: dict[str, set[object]] = {half: set() for half in HALVES}
    for name in CORPORA_FROM_ARXIV[:3]:
        dataset = benchmark_set(f"general-{name}")
        ids[CORPORA[name].half] |= {*dataset.train.ids, *dataset.test.ids}
    assert ids["A"]
    assert not ids["A"] & ids["B"]


def store(deficit: float = 0.0) -> Store:
    precisions = {"itq": 0.5 + deficit, "agh": 0.3, "bernoulli-vae": 0.5, "class-code": 0.6, "pairwise": 0.7}
    corpora = [f"general-{name}" for name, corpus in CORPORA.items() if corpus.half == "B"][:2]
    return Store(
        make_result(method, 8, value + 0.01 * seed, corpus, seed=seed)
        for (method, value), corpus, seed in itertools.product(precisions.items(), corpora, (0, 1))
    )


def test_the_tables_show_mean_ranks_and_the_worst_deficit_with_its_spread() -> None:
    page = render_tables(store(deficit=0.1))
    half_b = page[page.index("## Half B, without labels") :]
    assert "| ITQ | 1.00 |  |  |  |" in half_b
    assert "| BernoulliVAE (ours) | 2.00 |  |  |  |" in half_b
    assert "| worst deficit | +0.100 ± 0.007 (ax500f, ITQ) |" in half_b
    assert "| worst deficit | -0.100 ± 0.007 (ax500f, Class code) |" in half_b


def test_equal_precisions_share_a_rank() -> None:
    assert "| ITQ | 1.50 |" in render_tables(store())


def test_the_page_lists_every_corpus_with_its_half() -> None:
    page = render_generalisation(store())
    assert [name for name in CORPORA if f"`general-{name}`: " not in page] == []


def test_corpora_of_the_suite_are_not_in_the_tables_of_all_results() -> None:
    page = render_results([make_result("itq", 8, 0.5, "general-ax500f")])
    assert "general-" not in page


def test_the_tenth_is_used_for_databases_below_a_thousand_documents(tmp_path: Path) -> None:
    results = [make_result(method, 8, 0.5, "general-ax500f") for method in ("itq", "bernoulli-vae")]
    results[0].metrics["precision_at_tenth"] = 0.9
    assert "| worst deficit | +0.400 (ax500f, ITQ) |" in render_tables(Store(results))


def test_a_corpus_is_found_by_its_name_as_a_data_set() -> None:
    assert find_source("general-ax1500c").split_key == "ax1500c:query"
