"""The tables of asymmetric ranking, rendered from result files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fewbits import cli
from fewbits.benchmark.evaluate import ASYMMETRIC, BOTH_REAL
from fewbits.benchmark.report import write_report
from fewbits.benchmark.report.asymmetric import Comparison, render_asymmetric, render_asymmetric_tables, share_of_gap
from fewbits.benchmark.report.tables import render_results
from fewbits.benchmark.results import Result, Store
from fewbits.benchmark.spec import load_suite
from helpers.results import make_result

METRICS = ("neighbour_recall", "mean_average_precision", "bit_entropy", "distinct_share")


def result(method: str, bits: int, *precisions: float, dataset: str = "ng20", seed: int = 0) -> Result:
    """Return a result with precisions by distance, by confidence and with real values; the last two may be missing."""
    one = make_result(method, bits, precisions[0], dataset, seed=seed)
    metrics = {**one.metrics, **dict.fromkeys(METRICS, 0.5)}
    asymmetric = dict(zip((ASYMMETRIC, BOTH_REAL), precisions[1:], strict=True)) if precisions[1:] else None
    return replace(one, metrics=metrics, asymmetric=asymmetric)


def test_the_table_shows_the_three_rankings_of_each_method_and_the_share_of_the_gap() -> None:
    page = render_asymmetric_tables(
        Store([result("itq", 32, 0.5, 0.51, 0.54), result("itq", 64, 0.6, 0.61, 0.61), result("itq", 8, 0.3, 0.3, 0.5)])
    )
    assert "| ITQ, by distance | 0.300 | 0.500 | 0.600 |" in page
    assert "| ITQ, by confidence | 0.300 | 0.510 | 0.610 |" in page
    assert "| ITQ, real values on both sides | 0.500 | 0.540 | 0.610 |" in page
    assert "| ITQ | +0.0067 | +0.0833 | 40% |" in page  # (.01 + .01) / (.04 + .01); 8 bits are too few for the share


def test_figures_are_means_over_the_seeds() -> None:
    page = render_asymmetric_tables(Store(result("itq", 8, 0.4 + seed / 10, 0.5, 0.6, seed=seed) for seed in (0, 1, 2)))
    assert "| ITQ, by distance | 0.500 ± 0.100 |" in page


def test_a_result_of_an_earlier_version_shows_nothing() -> None:
    store = Store([result("itq", 8, 0.3), result("lsh", 8, 0.2, 0.25, 0.3)])
    page = render_asymmetric(store)
    assert "LSH" in page
    assert "ITQ" not in page
    assert "confidence" not in render_results([result("itq", 8, 0.3)]).split("## ng20")[1]


def test_all_results_have_a_table_by_confidence_with_the_methods_that_have_it() -> None:
    page = render_results([result("itq", 8, 0.3), result("lsh", 8, 0.2, 0.25, 0.3)])
    table = page.split("| Precision at 100, a differing bit costs the query's confidence in it |")[1].split("\n\n")[0]
    assert "| LSH | 0.250 |" in table
    assert "ITQ" not in table


def test_runs_with_other_parameters_are_left_out() -> None:
    changed = make_result("itq", 8, 0.3, n_iterations=1)
    changed = replace(changed, asymmetric={ASYMMETRIC: 0.4, BOTH_REAL: 0.5})
    assert render_asymmetric_tables(Store([changed])) == ""


@pytest.mark.parametrize("gap", [0.0, 0.004])
def test_a_gap_that_is_too_small_has_no_share(gap: float) -> None:
    assert share_of_gap([Comparison((0.5,), (0.502,), (0.5 + gap,))]) is None


def test_the_page_is_written_if_there_are_such_results(tmp_path: Path) -> None:
    for one in (result("itq", 8, 0.3), result("lsh", 8, 0.2, 0.25, 0.3)):
        one.save(tmp_path / "results")
    written = {path.name for path in write_report(tmp_path / "results", tmp_path / "docs")}
    assert "asymmetric.md" in written
    result("lsh", 8, 0.2).save(tmp_path / "results")
    assert "asymmetric.md" not in {path.name for path in write_report(tmp_path / "results", tmp_path / "docs")}


def test_the_suite_has_five_lengths_of_both_defaults_and_a_classic_method_on_three_sets() -> None:
    runs = {(spec.dataset, spec.method) for spec in load_suite("asymmetric").specs}
    assert {method for _, method in runs} == {"itq", "bernoulli-vae", "pairwise"}
    assert {dataset for dataset, _ in runs} == {"ng20", "reuters", "arxiv"}
    assert {spec.bits for spec in load_suite("asymmetric").specs} == {8, 16, 32, 64, 128}


def test_the_command_prints_the_stored_figures_of_one_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for one in (result("itq", 8, 0.3, 0.4, 0.5), result("itq", 8, 0.6, 0.7, 0.8, dataset="reuters")):
        one.save(tmp_path)
    options = ["--no-run", "--dataset", "reuters", "--results", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["fewbits", "bench", "asymmetric", *options])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr().out
    assert ended.value.code in (0, None)
    assert "| ITQ, by confidence | 0.700 |" in printed
    assert "## ng20" not in printed
