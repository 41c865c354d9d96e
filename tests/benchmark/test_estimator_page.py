from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fewbits import Dataset, Split
from fewbits.benchmark.experiments.estimators import compare_estimators, render_estimators, save_facts
from fewbits.nn.gradient_estimators import ESTIMATORS
from helpers.corpora import topic_rows

ROOT = Path(__file__).parents[2]


@pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")
def test_estimators_are_compared_by_variance_bias_and_time(tmp_path: Path) -> None:
    rows, classes = topic_rows()
    part = Split(list(range(300)), None, rows, sparse.csr_array(np.eye(3, dtype=np.uint8)[classes]))
    facts = {fact.estimator: fact for fact in compare_estimators(Dataset("toy", part, part, part, [], [], "f"), 8)}
    assert set(facts) == set(ESTIMATORS)
    assert facts["arm"].relative_variance == pytest.approx(1.0)
    assert facts["flip"].relative_variance < facts["disarm"].relative_variance < 1.05
    assert facts["arm"].relative_bias < 0.2  # its mean over so many draws is off by more, and that is noise
    assert facts["flip"].relative_bias < facts["gumbel-softmax"].relative_bias
    assert all(fact.milliseconds > 0 for fact in facts.values())
    save_facts(list(facts.values()), tmp_path)
    text = render_estimators(tmp_path)
    assert "## toy, 8 bits" in text
    assert "| arm | 1.0000 | none |" in text
    assert "fewbits bench estimators --dataset toy --bits 8 --save" in text


def test_the_committed_table_is_what_the_committed_figures_give() -> None:
    assert (ROOT / "docs" / "estimators.md").read_text() == render_estimators(ROOT / "results" / "estimators")
