"""Result files and their tables, and the results that tables are filled from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fewbits import Dataset, Split
from fewbits.benchmark.evaluate import evaluate
from fewbits.benchmark.report import render_comparison, render_page, render_results
from fewbits.benchmark.report.paper import collection_table
from fewbits.benchmark.results import Result, RunTimes, Store, load_results
from fewbits.benchmark.spec import Spec
from fewbits.errors import BrokenFolderError, MissingFileError, ParameterError
from helpers.results import ROOT, make_result

KEYS = {
    "method",
    "dataset",
    "bits",
    "seed",
    "parameters",
    "metrics",
    "seconds",
    "peak_memory_mb",
    "versions",
    "data_fingerprint",
}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    generator = np.random.default_rng(0)

    def split(count: int) -> Split:
        classes = generator.integers(0, 3, count)
        rows = np.repeat(np.eye(3), 10, axis=1)[classes] * generator.random((count, 30))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return Split(
            list(range(count)), None, sparse.csr_array(rows), sparse.csr_array(np.eye(3, dtype=np.uint8)[classes])
        )

    words = [f"w{n}" for n in range(30)]
    return Dataset("toy", split(200), split(50), split(60), words, ["a", "b", "c"], "f" * 64)


def test_a_run_is_saved_as_one_file_with_its_parameters_metrics_and_costs(dataset: Dataset, tmp_path: Path) -> None:
    result = evaluate("itq", dataset, 16, 3)
    path = result.save(tmp_path)
    content = json.loads(path.read_text())
    assert set(content) >= KEYS
    assert (content["method"], content["dataset"], content["bits"], content["seed"]) == ("itq", "toy", 16, 3)
    assert content["metrics"]["precision_at_100"] > content["metrics"]["random_floor"] > 0.3
    assert content["parameters"] == {"max_rows": 50_000, "n_iterations": 50}
    assert content["peak_memory_mb"] > 10
    assert set(content["seconds"]) == {"fit", "encode", "evaluate"}
    assert list(load_results(tmp_path)) == [result]


def test_a_result_has_the_precision_with_real_values_and_one_of_an_earlier_version_does_not(
    dataset: Dataset, tmp_path: Path
) -> None:
    result = evaluate("lsh", dataset, 8, 0)
    assert result.asymmetric is not None
    symmetric, chance = result.metrics["precision_at_100"], result.metrics["random_floor"]
    assert result.asymmetric["asymmetric_precision_at_100"] > symmetric > chance
    assert result.asymmetric["real_precision_at_100"] > result.asymmetric["asymmetric_precision_at_100"]
    earlier = replace(result, asymmetric=None)
    path = earlier.save(tmp_path)
    assert "asymmetric" not in json.loads(path.read_text())
    assert Result.load(path) == earlier


def test_a_repeated_run_gives_the_same_metrics_in_the_same_file(dataset: Dataset, tmp_path: Path) -> None:
    first, second = (evaluate("lsh", dataset, 8, 0) for _ in range(2))
    assert first.metrics == second.metrics
    assert first.save(tmp_path) == second.save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_different_runs_have_different_files(dataset: Dataset) -> None:
    runs = [
        evaluate("itq", dataset, 8, 0),
        evaluate("itq", dataset, 8, 1),
        evaluate("itq", dataset, 9, 0),
        evaluate("itq", dataset, 8, 0, parameters={"n_iterations": 2}),
        evaluate("itq", dataset, 8, 0, part="validation"),
    ]
    assert len({run.file_name for run in runs}) == 5


def test_a_result_without_metrics_is_refused_unless_the_run_failed(dataset: Dataset, tmp_path: Path) -> None:
    result = replace(evaluate("lsh", dataset, 8, 0), metrics={})
    path = result.save(tmp_path)
    with pytest.raises(BrokenFolderError, match="is not a valid result file"):
        Result.load(path)
    failed = replace(result, error="it failed")
    assert Result.load(failed.save(tmp_path)) == failed


def test_an_unknown_part_and_a_broken_store_are_refused(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"unknown part \(allowed: train, validation, test; got: 'dev'\)"):
        evaluate("lsh", dataset, 8, 0, part="dev")
    (tmp_path / "x.json").write_text('{"method": "lsh"}')
    with pytest.raises(BrokenFolderError, match=r"x.json is not a valid result file"):
        list(load_results(tmp_path))
    with pytest.raises(MissingFileError, match="nowhere does not exist"):
        load_results(tmp_path / "nowhere")


def test_tables_show_mean_and_spread_over_seeds_without_the_validation_part(dataset: Dataset) -> None:
    runs = [evaluate("lsh", dataset, 8, seed) for seed in (0, 1, 2)]
    values = [run.metrics["precision_at_100"] for run in runs]
    text = render_results([*runs, evaluate("lsh", dataset, 16, 0, part="validation")])
    assert f"| LSH | {np.mean(values):.3f} ± {np.std(values, ddof=1):.3f} |" in text
    assert "16 bits" not in text
    assert "fewbits evaluate --save --method lsh --dataset toy --bits 8 --seed 0 --seed 1 --seed 2" in text


def test_the_commands_below_a_table_repeat_exactly_its_runs(dataset: Dataset) -> None:
    runs = [
        *(evaluate(method, dataset, 8, seed) for method in ("lsh", "itq") for seed in (0, 1)),
        evaluate("lsh", dataset, 16, 0),
        evaluate("itq", dataset, 8, 0, parameters={"n_iterations": 2}),
        evaluate("itq", dataset, 8, 1, parameters={"n_iterations": 3, "max_rows": 50}),
    ]
    commands = [line for line in render_results(runs).splitlines() if line.startswith("fewbits evaluate --save")]
    assert commands == [
        "fewbits evaluate --save --method lsh --method itq --dataset toy --bits 8 --seed 0 --seed 1",
        "fewbits evaluate --save --method lsh --dataset toy --bits 16 --seed 0",
        "fewbits evaluate --save --method itq --dataset toy --bits 8 --seed 1 --set max_rows=50 --set n_iterations=3",
        "fewbits evaluate --save --method itq --dataset toy --bits 8 --seed 0 --set n_iterations=2",
    ]


def test_the_committed_tables_match_the_committed_results() -> None:
    results = list(load_results(ROOT / "results"))
    assert (ROOT / "docs" / "results.md").read_text() == render_results(results)


def test_the_committed_results_cover_both_methods_three_sets_five_lengths_and_five_seeds() -> None:
    found = {(r.method, r.dataset, r.bits, r.seed) for r in load_results(ROOT / "results") if r.part == "test"}
    for method in ("lsh", "itq"):
        for name in ("reuters", "ng20", "tmc"):
            assert {(method, name, bits, seed) for bits in (8, 16, 32, 64, 128) for seed in range(5)} <= found


@pytest.mark.xdist_group("archives")
def test_a_committed_figure_is_reproduced(benchmark_set: Callable[[str], Dataset]) -> None:
    [committed] = [r for r in load_results(ROOT / "results") if r.file_name.startswith("itq-reuters-32bits-seed0-")]
    again: Result = evaluate("itq", benchmark_set("reuters"), 32, 0)
    assert again.data_fingerprint == committed.data_fingerprint
    assert again.metrics["precision_at_100"] == pytest.approx(committed.metrics["precision_at_100"], abs=0.01)


LSH = [Spec("lsh", "ng20", 8, seed) for seed in (0, 1, 2)]
SUCCEEDED = [make_result("lsh", 8, 0.06, seed=seed) for seed in (0, 1)]
OTHER_DATA = replace(make_result("lsh", 8, 0.9, seed=2), data_fingerprint="e" * 64)
FAILED = replace(SUCCEEDED[0], seed=2, metrics={}, error="MemoryError")


def test_results_on_other_data_are_excluded_and_their_runs_count_as_missing() -> None:
    store = Store([*SUCCEEDED, OTHER_DATA])
    assert store.precisions(LSH) == (0.06, 0.06)
    assert store.count_missing(LSH) == 1
    note = "Results on a different version of the data are excluded: 1 on ng20."
    assert note in render_comparison(store, [])
    assert note in render_page([*SUCCEEDED, OTHER_DATA])


def test_no_exclusion_is_stated_if_all_results_are_on_the_same_data() -> None:
    assert "excluded" not in render_comparison(Store(SUCCEEDED), [])


def test_failed_and_missing_runs_are_counted_separately() -> None:
    assert Store(SUCCEEDED).shortfall(LSH) == ["1 of 3 runs are missing."]
    assert Store(SUCCEEDED, [FAILED]).shortfall(LSH) == ["1 of 3 runs failed."]
    assert Store(SUCCEEDED[:1], [FAILED]).shortfall(LSH) == ["1 of 3 runs are missing.", "1 of 3 runs failed."]
    assert Store(SUCCEEDED, [replace(FAILED, data_fingerprint="e")]).shortfall(LSH) == ["1 of 3 runs are missing."]


def test_tables_and_pages_count_failed_runs() -> None:
    assert "1 of 160 runs failed." in collection_table(Store(SUCCEEDED, [FAILED]), "ng20", "unsupervised").markdown()
    page = render_page(SUCCEEDED, failures=[FAILED])
    assert "157 of 160 runs are missing. 1 of 160 runs failed." in page
    assert "1 runs failed." in page


def test_the_remaining_time_is_estimated_from_similar_runs_or_else_from_all_finished_runs() -> None:
    def took(method: str, bits: int, seconds: float) -> Result:
        return replace(make_result(method, bits, 0.5), seconds={"fit": seconds})

    todo = [Spec("lsh", "ng20", 8, 0), Spec("lsh", "ng20", 16, 0), Spec("itq", "ng20", 8, 0)]
    assert RunTimes().remaining(todo) is None
    assert RunTimes().remaining([]) == 0
    assert RunTimes([took("sph", 8, 100.0)]).remaining(todo) == 300
    assert RunTimes([took("lsh", 8, 10.0), took("lsh", 32, 30.0)]).remaining(todo[:2]) == 10 + 20
    assert RunTimes([took("lsh", 8, 10.0), took("lsh", 32, 30.0)]).remaining(todo) == 10 + 20 + 15
