from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from fewbits.benchmark.experiments.latent import load_figures
from fewbits.benchmark.report import render_page
from fewbits.benchmark.report.comparison import render_comparison
from fewbits.benchmark.report.paper import ABLATIONS, ablation_table, collection_table, times_table
from fewbits.benchmark.report.published import published_figures, published_precision, verdict
from fewbits.benchmark.report.tables import render
from fewbits.benchmark.results import Result, load_failures, load_results
from fewbits.benchmark.spec import load_suite
from fewbits.benchmark.store import Store
from fewbits.cli import app
from fewbits.hashers.registry import METHODS, make_hasher
from helpers.results import ROOT, make_result


def page(*results: Result) -> str:
    return render_comparison(Store(results), [])


def section(page: str, title: str) -> str:
    return page.split(f"## {title}\n")[1].split("\n## ")[0]


def test_every_published_figure_has_a_source_and_a_value_between_0_and_1() -> None:
    figures = published_figures()
    assert all(figure["source"] and 0 < figure["value"] < 1 for figure in figures)
    assert {figure["dataset"] for figure in figures} == {"reuters", "ng20", "tmc", "rcv1"}


def test_every_method_of_the_papers_tables_is_in_the_registry_with_all_its_lengths() -> None:
    in_tables = {figure["method"] for figure in published_figures() if figure["source"].startswith("PSH")}
    assert in_tables <= {method.title for method in METHODS.values()}
    lengths = published_precision()
    for dataset in ("reuters", "ng20", "tmc"):
        for name in ("lsh", "s-rbm", "sph", "sth", "vdsh", "nash", "arm-dvae", "ksh", "shttm", "vdsh-s", "psh-arm"):
            assert set(lengths[name, dataset]) == {8, 16, 32, 64, 128}


@pytest.mark.parametrize(
    ("table", "where", "value"),
    [
        ("tab:reu", ("LSH", "reuters", 8), 0.2802),
        ("tab:20ng", ("STH", "ng20", 32), 0.586),
        ("tab:20ng", ("ARM-DVAE", "ng20", 128), 0.6214),
        ("tab:tmc", ("STH", "tmc", 32), 0.4105),
        ("tab:sreu", ("VDSH-SP", "reuters", 32), 0.9283),
        ("tab:s20ng", ("PSH-ARM", "ng20", 128), 0.8432),
        ("tab:stmc", ("PSH-ARM", "tmc", 128), 0.8617),
        ("tab:rcv", ("ARM-DVAE", "rcv1", 8), 0.8368),
    ],
)
def test_figures_are_those_that_the_paper_prints(table: str, where: tuple[str, str, int], value: float) -> None:
    found = [
        f for f in published_figures() if (f["method"], f["dataset"], f["bits"]) == where and f.get("table") == table
    ]
    assert [figure["value"] for figure in found] == [value]


@pytest.mark.parametrize(
    ("table", "weight", "printed"),
    [
        ("tab:pw", "beta", {0.0: 0.828, 0.05: 0.8373, 0.075: 0.7925, 0.085: 0.734, 0.09: 0.7154}),
        ("tab:kl", "kl_weight", {0.0: 0.7712, 0.01: 0.8376, 0.1: 0.4954, 0.5: 0.4474, 1.0: 0.487, 2.0: 0.4167}),
    ],
)
def test_ablations_are_those_that_the_paper_prints(table: str, weight: str, printed: dict[float, float]) -> None:
    assert {f[weight]: f["value"] for f in published_figures() if f.get("table") == table} == printed


@pytest.mark.parametrize(
    ("table", "count", "total"),
    [
        ("tab:reu", 35, 22.971),
        ("tab:20ng", 35, 11.3565),
        ("tab:tmc", 35, 19.4327),
        ("tab:sreu", 35, 31.6486),
        ("tab:s20ng", 35, 22.7766),
        ("tab:stmc", 35, 26.8632),
        ("tab:rcv", 10, 9.3036),
    ],
)
def test_a_published_table_is_whole_and_adds_up(table: str, count: int, total: float) -> None:
    values = [figure["value"] for figure in published_figures() if figure.get("table") == table]
    assert len(values) == count
    assert sum(values) == pytest.approx(total, abs=5e-5)


@pytest.mark.parametrize(
    ("at_their_best", "at_zero", "beyond", "said"),
    [
        ((0.86, 0.84), (0.80, 0.78), (0.7, 0.7), ": they agree on the best value."),
        ((0.84, 0.82), (0.85, 0.83), (0.7, 0.7), "the spread of the seeds (0.014) they agree on the best value."),
        ((0.80, 0.78), (0.86, 0.84), (0.7, 0.7), ": they do not agree on the best value."),
        ((0.86, 0.84), (0.80, 0.78), (0.7, 0.7), "does from 0 to 0.05 and from 0.05 to 0.075, and the"),
        ((0.80, 0.78), (0.86, 0.84), (0.9, 0.9), "nowhere, and the other way from 0 to 0.05 and from 0.05"),
        ((0.84, 0.82), (0.85, 0.83), (0.85, 0.83), "(0.014) ours does not depend on it in this range"),
    ],
)
def test_ours_agree_with_an_ablation_of_the_paper_where_the_best_value_is_the_same_but_for_chance(
    at_their_best: tuple[float, ...], at_zero: tuple[float, ...], beyond: tuple[float, ...], said: str
) -> None:
    weights = {0.0: at_zero, 0.05: at_their_best, 0.075: beyond, 0.085: beyond, 0.09: beyond}
    runs = [
        replace(make_result("psh-arm", 32, precision, pair_weight=weight), seed=seed)
        for weight, precisions in weights.items()
        for seed, precision in enumerate(precisions)
    ]
    runs += [make_result("pairwise", 32, 0.9, pair_weight=0.01), make_result("pairwise", 32, 0.6, pair_weight=100.0)]
    told = ablation_table(Store(runs), "pair_weight").markdown()
    assert "; PairwiseHasher (ours) is best at 0.01 and lower by 0.300 at 100." in told
    assert "the published precision is best at 0.05 and lower by 0.122 at 0.09" in told
    assert said in told
    assert "agree" not in ablation_table(Store(runs[2:]), "pair_weight").markdown()  # not all values were run


def test_every_run_of_the_ablation_suite_is_in_a_table() -> None:
    specs = load_suite("ablation").specs
    assert {name for spec in specs for name in spec.parameters} == set(ABLATIONS)
    assert all(len(spec.parameters) == 1 for spec in specs)


def test_an_ablation_that_nobody_published_has_a_row_for_each_method_and_data_set_and_the_methods_own_value() -> None:
    runs = [
        make_result("arm-dvae", 32, 0.79, "reuters", estimator="flip"),
        make_result("arm-dvae", 32, 0.74, "reuters"),
        make_result("psh-arm", 32, 0.8, "ng20", estimator="flip"),
    ]
    table = ablation_table(Store(runs), "estimator").markdown()
    assert "(Reuters, 32 bits; 20 Newsgroups, 32 bits; TMC, 32 bits)" in table
    assert "|  | arm | flip |" in table
    assert "Made by: `fewbits bench run ablation && fewbits bench run paper`" in table
    assert "| ARM-DVAE, Reuters | 0.740 | 0.790 |" in table
    assert "| PSH-ARM, 20 Newsgroups |  | 0.800 |" in table
    assert "A random ranking has 0.0500 on Reuters, 0.0500 on 20 Newsgroups. 4 of 6 runs are missing." in table
    alphas = [make_result("psh-gs", 32, 0.6, label_weight=[0.01, 0.1]), make_result("psh-gs", 32, 0.8)]
    rising = ablation_table(Store(alphas), "label_weight").markdown()
    assert "|  | 0.01 to 0.1 | 1 to 100 |" in rising
    assert "| PSH-GS | 0.600 | 0.800 |" in rising
    assert "A random ranking has 0.0500." in ablation_table(Store(alphas[1:]), "label_weight").markdown()
    shares = ablation_table(Store([make_result("pairwise", 16, 0.8, svm_share=0.25)]), "svm_share").markdown()
    assert "(20 Newsgroups, 16 bits)" in shares
    assert "| PairwiseHasher (ours) |  | 0.800 |  |  |  |" in shares


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        ({8: 0.5, 16: 0.6}, "agrees"),
        ({8: 0.6, 16: 0.6}, "better"),
        ({8: 0.4, 16: 0.5}, "worse"),
        ({}, "not in its tables"),
    ],
)
def test_the_verdict_goes_by_the_mean_difference_over_the_lengths_that_both_have(
    ours: dict[int, float], said: str
) -> None:
    assert verdict(ours, {8: 0.51, 16: 0.58, 32: 0.9})[0].startswith(said)


def test_a_row_has_our_spread_the_published_figures_and_a_verdict_and_the_floor_stands_beside() -> None:
    runs = [replace(make_result("sph", 32, precision), seed=seed) for seed, precision in enumerate((0.36, 0.37, 0.38))]
    table = section(page(*runs, make_result("itq", 32, 0.5, n_iterations=3)), "20 Newsgroups, unsupervised")
    assert "| SpH | (0.255) | (0.320) | 0.370 ± 0.010 (0.371) | (0.320) | (0.272) | agrees (-0.001) |" in table
    assert "| ITQ |  |  |  |  |  | not in its tables |" in table  # a variant is no row
    assert "A random ranking has 0.0500." in table
    assert "Why so much worse" not in table


def test_a_row_that_is_far_worse_has_its_reason_below() -> None:
    table = section(page(make_result("sph", 32, 0.2)), "20 Newsgroups, unsupervised")
    assert "0.200 (0.371)" in table
    assert "worse (-0.171)" in table
    assert "- SpH: reason not found yet" in table


def test_a_reason_is_told_with_the_figure_of_the_run_that_shows_it_or_not_at_all() -> None:
    worse = make_result("arm-dvae", 32, 0.70, "reuters")
    shown = page(worse, make_result("arm-dvae", 32, 0.79, "reuters", estimator="flip"))
    assert "- ARM-DVAE: the variance of ARM's gradient" in shown
    assert "it reaches 0.790 instead of 0.700 at 32 bits." in shown
    assert "- ARM-DVAE: reason not found yet" in page(worse)


@pytest.mark.parametrize(
    ("precisions", "correlation", "verdicts"),
    [
        ((0.5, 0.6, 0.7), "1.00", ("agrees (+0.0 places)", "agrees (+0.0 places)", "agrees (+0.0 places)")),
        ((0.7, 0.6, 0.5), "-1.00", ("better (+2.0 places)", "agrees (+0.0 places)", "worse (-2.0 places)")),
    ],
)
def test_on_tmc_a_row_is_judged_by_its_place_among_the_methods_alone(
    precisions: tuple[float, ...], correlation: str, verdicts: tuple[str, ...]
) -> None:
    in_published_order = ("lsh", "sph", "arm-dvae")
    runs = [make_result(method, 32, one, "tmc") for method, one in zip(in_published_order, precisions, strict=True)]
    table = section(page(*runs), "TMC, unsupervised")
    assert "500 binary words where the published one has 20,000 with frequencies" in table
    assert f"over the methods: {correlation} at 32 bits." in table
    for method, said in zip(("LSH", "SpH", "ARM-DVAE"), verdicts, strict=True):
        [row] = [line for line in table.splitlines() if line.startswith(f"| {method} |")]
        assert row.endswith(f"| {said} |")
    assert table.count("not in its tables") > 2  # of methods that were run or printed alone


def test_on_tmc_a_row_that_has_lost_many_places_has_its_reason_below() -> None:
    falls_by = {2: ("lsh", "sph", "arm-dvae"), 3: ("sth", "lsh", "sph", "arm-dvae")}  # in the published order
    for places, methods in falls_by.items():
        runs = [make_result(method, 32, 0.7, "tmc") for method in methods[:-1]]
        table = section(page(*runs, make_result("arm-dvae", 32, 0.6, "tmc")), "TMC, unsupervised")
        assert f"worse (-{places}.0 places)" in table
        assert ("- ARM-DVAE: reason not found yet" in table) == (places == 3)


def test_what_was_chosen_otherwise_than_by_the_paper_is_told_with_the_figures_of_the_presets() -> None:
    said = page()
    for text in (said, render([]), render_page([], [], ROOT / "nowhere")):
        assert "BernoulliVAE (ours) learns without labels, but its settings were chosen with the labels" in text
    first, last = METHODS["psh-arm"].preset["label_weight"]
    assert f"rises from {first:g} to {last:g}, searched on ng20's validation part at 32 bits" in said
    assert "with the paper's 0.01 to 0.1 the classifier" in said
    assert f"neither epochs (here {METHODS['psh-gs'].preset['epochs']}, for NASH-DN-S" in said
    assert f"nor batch size (here {make_hasher('psh-arm', 8).get_params()['batch_size']})" in said


def timed(bits: int, seed: int, hours: float, **parameters: Any) -> Result:
    seconds = {"fit": 3000 * hours, "encode": 300 * hours, "evaluate": 300 * hours, "epoch": 50.0}
    return replace(make_result("itq", bits, 0.5, **parameters), seed=seed, seconds=seconds)


def test_the_time_of_a_suite_is_estimated_for_all_its_runs_and_a_run_that_stalled_does_not_count() -> None:
    runs = [timed(32, 0, 1.0), timed(32, 1, 1.2), timed(32, 2, 40.0), timed(64, 0, 2.0)]
    table = times_table(Store(runs)).markdown()
    # 3 seeds of 32 bits with 1.2, of 64 bits with 2.0, of three other lengths with 1.6, the median of all four
    hours = 3 * 1.2 + 3 * 2.0 + 9 * 1.6
    assert f"| paper | 930 | 926 | {hours:.1f} | {hours / 2:.1f} |" in table
    assert re.search(r"\| ablation \| (\d+) \| \1 \| 0.0 \| 0.0 \|", table)
    assert "Not known and not counted, for want of any such result: 915 of paper, " in table


def test_published_figures_near_chance_are_named_where_ours_are_far_above_it() -> None:
    results = [make_result("s-rbm", 32, 0.5), make_result("lsh", 32, 0.06), make_result("sth", 32, 0.5)]
    notes = " ".join(collection_table(Store(results), "ng20", "unsupervised").notes)
    assert "near chance, as no sound run of ours is: S-RBM at 32 bits." in notes


def test_no_run_of_the_store_needed_2_and_a_half_gigabytes() -> None:
    assert max(found.peak_memory_mb for found in load_results(ROOT / "results")) < 2500


def test_the_committed_comparison_is_what_the_committed_results_give() -> None:
    store = Store(load_results(ROOT / "results"), load_failures(ROOT / "results"))
    rendered = render_comparison(store, load_figures(ROOT / "results"))
    assert (ROOT / "docs" / "comparison.md").read_text() == rendered


def test_the_methods_are_listed_with_setting_and_reference() -> None:
    lines = CliRunner().invoke(app, ["methods", "--json"]).output.splitlines()
    listed = [json.loads(line) for line in lines]
    assert [method["name"] for method in listed] == list(METHODS)
    assert {method["setting"] for method in listed} == {"unsupervised", "semi-supervised", "supervised"}
    assert all(method["reference"] for method in listed)
    assert "psh-arm" in CliRunner().invoke(app, ["methods"]).output
