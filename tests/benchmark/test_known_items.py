from __future__ import annotations

from pathlib import Path

import pytest

from fewbits.benchmark.experiments.known_items import Titled, compare_known_items, render_known_items, save_known_items
from helpers.corpora import tiny_documents


def test_every_way_to_rank_is_measured_on_titles_and_rendered(tmp_path: Path) -> None:
    documents = [
        Titled(document.id, " ".join(document.text.split()[:3]), " ".join(document.text.split()[2:]))
        for document in tiny_documents(90)
    ]
    comparison = compare_known_items(
        "tiny", documents, 16, method="itq", learn_from=60, reported=40, choosing=20, shortlists=(5, 90)
    )
    shares = {(row.ranking, row.shortlist, row.titles): row.share for row in comparison.rows}
    assert (comparison.documents, comparison.learnt_from) == (90, 60)
    # a shortlist of all documents is the exact ranking, up to the order of equals
    exact = shares["tf-idf cosine, exact", None, "choosing"]
    assert shares["codes, then words of a shortlist", 90, "choosing"] == pytest.approx(exact, abs=0.1)
    assert len(comparison.rows) == 7
    save_known_items(comparison, tmp_path)
    page = render_known_items(tmp_path)
    assert "## tiny, 16 bits" in page
    assert f"| {exact:.3f} | 1.00 |" in page
    assert "fewbits bench known-items --dataset tiny --bits 16 --save" in page
