"""What tables are filled from: one choice of documents counts, and failed runs are not missing ones."""

from __future__ import annotations

from dataclasses import replace

from fewbits.benchmark.report import render_page
from fewbits.benchmark.report.comparison import render_comparison
from fewbits.benchmark.report.paper import collection_table
from fewbits.benchmark.results import Result
from fewbits.benchmark.spec import Spec
from fewbits.benchmark.store import Store
from fewbits.benchmark.times import Times
from helpers.results import ROOT, make_result

LSH = [Spec("lsh", "ng20", 8, seed) for seed in (0, 1, 2)]
WELL = [replace(make_result("lsh", 8, 0.06), seed=seed) for seed in (0, 1)]
ELSEWHERE = replace(make_result("lsh", 8, 0.9), seed=2, data_fingerprint="e" * 64)
FAILED = replace(WELL[0], seed=2, metrics={}, error="MemoryError")


def test_results_on_other_documents_are_no_seeds_and_their_runs_are_missing() -> None:
    store = Store([*WELL, ELSEWHERE])
    assert store.cell(LSH).values == (0.06, 0.06)
    assert store.missing(LSH) == 1
    told = "Results on other documents than most have were left out: 1 on ng20."
    assert told in render_comparison(store, [])
    assert told in render_page([*WELL, ELSEWHERE], [], ROOT / "nowhere")


def test_where_all_results_are_on_the_same_documents_nothing_is_told_about_others() -> None:
    assert "other documents" not in render_comparison(Store(WELL), [])


def test_a_failed_run_is_told_apart_from_a_missing_one() -> None:
    assert Store(WELL).shortfall(LSH) == ["1 of 3 runs are missing."]
    assert Store(WELL, [FAILED]).shortfall(LSH) == ["1 of 3 runs failed."]
    assert Store(WELL[:1], [FAILED]).shortfall(LSH) == ["1 of 3 runs are missing.", "1 of 3 runs failed."]
    assert Store(WELL, [replace(FAILED, data_fingerprint="e")]).shortfall(LSH) == ["1 of 3 runs are missing."]


def test_tables_and_pages_tell_failed_runs() -> None:
    assert "1 of 160 runs failed." in collection_table(Store(WELL, [FAILED]), "ng20", "unsupervised").markdown()
    page = render_page(WELL, [], ROOT / "nowhere", [FAILED])
    assert "157 of 160 runs are missing. 1 of 160 runs failed." in page
    assert "1 runs failed." in page


def test_the_time_left_is_known_from_runs_like_those_to_do_and_else_from_all_that_were_done() -> None:
    def took(method: str, bits: int, seconds: float) -> Result:
        return replace(make_result(method, bits, 0.5), seconds={"fit": seconds})

    to_do = [Spec("lsh", "ng20", 8, 0), Spec("lsh", "ng20", 16, 0), Spec("itq", "ng20", 8, 0)]
    assert Times().left(to_do) is None
    assert Times().left([]) == 0
    assert Times([took("sph", 8, 100.0)]).left(to_do) == 300
    assert Times([took("lsh", 8, 10.0), took("lsh", 32, 30.0)]).left(to_do[:2]) == 10 + 20
    assert Times([took("lsh", 8, 10.0), took("lsh", 32, 30.0)]).left(to_do) == 10 + 20 + 15
