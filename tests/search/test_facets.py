"""Facets: the counts are those of the documents that a search with the value would match."""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator

import numpy as np
import pytest

from fewbits import Document, SearchEngine
from fewbits.search import Condition
from fewbits.search.facets import (
    Facet,
    FacetCache,
    FacetValue,
    FieldColumn,
    count_facets,
    count_matches,
    find_matches,
    parsed_for,
    range_limits,
    read_columns,
)
from helpers.corpora import tiny_documents

Strings = tuple[str, ...]
WORDS = {"boat": "boat", "everything": "boat soup telescope onions light stars garlic wind mast"}


def library() -> list[Document]:
    """Return documents with a label, a category, a few numbers, many numbers, a skewed number and a title."""
    return [
        Document(
            one.id,
            one.text,
            one.labels,
            {
                "kind": ["class", "function", "module"][number % 3 if number % 4 else 0],
                "stars": number % 5,
                "year": 1990 + number % 30,
                "size": 2 ** (number % 17),
                "title": f"title {number}",
                "tags": ["even" if number % 2 == 0 else "odd", "all"],
            },
        )
        for number, one in enumerate(tiny_documents())
    ]


@pytest.fixture(scope="module")
def engine() -> SearchEngine:
    return SearchEngine.from_documents(library(), n_bits=16, method="itq")


def facets_of(
    engine: SearchEngine, query: str, labels: tuple[str, ...] = (), where: tuple[str, ...] = ()
) -> list[Facet]:
    with engine.snapshot() as snapshot:
        matches = find_matches(snapshot, parsed_for(snapshot, query))
        return count_facets(snapshot, read_columns(snapshot.reader), matches, labels, where)


def matching(query: str, labels: Strings, where: Strings) -> int:
    """Count by reading all documents."""
    return sum(
        bool(set(query.split()) & set(one.text.split()))
        and (not labels or bool(set(labels) & set(one.labels)))
        and all(_passes(one, Condition.parse(condition)) for condition in where)
        for one in library()
    )


def _passes(document: Document, condition: Condition) -> bool:
    value = document.metadata[condition.field]
    values = value if isinstance(value, list) else [value]
    compare = {"=": operator.eq, ">=": operator.ge, "<": operator.lt}[condition.operator]
    return any(compare(one, condition.value) for one in values)


FILTERS = [
    ((), ()),
    (("cooking",), ()),
    ((), ("kind=class",)),
    (("sailing", "astronomy"), ("kind=function", "stars=2")),
    ((), ("year>=2000", "year<2010", "tags=odd")),
]


@pytest.mark.parametrize(("labels", "where"), FILTERS)
@pytest.mark.parametrize("query", WORDS.values(), ids=WORDS)
def test_each_count_is_the_number_of_matches_with_that_value_in_the_place_of_those_chosen(
    engine: SearchEngine, query: str, labels: Strings, where: Strings
) -> None:
    facets = facets_of(engine, query, labels, where)
    assert [facet.field for facet in facets] == [None, "kind", "size", "stars", "tags", "year"]
    with engine.snapshot() as snapshot:
        parsed = parsed_for(snapshot, query)
        assert count_matches(snapshot, parsed, labels, where) == (matching(query, labels, where), True)
        for facet in facets:
            others = tuple(one for one in where if Condition.parse(one).field != facet.field)
            for value in facet.values:
                changed = ((str(value.value),), others) if facet.field is None else (labels, (*others, *value.where))
                assert value.count == matching(query, *changed), (facet.field, value)
                assert (value.count, True) == count_matches(snapshot, parsed, *changed)


def test_numbers_are_put_into_ranges_and_descriptions_are_no_facet(engine: SearchEngine) -> None:
    facets = {facet.field: facet for facet in facets_of(engine, WORDS["everything"])}
    assert "title" not in facets
    years = [value.value for value in facets["year"].values]
    assert years[0] == "below 1995"
    assert "2000 to 2004" in years
    years_1995 = matching(WORDS["everything"], (), ("year>=1995", "year<2000"))
    assert facets["year"].values[1] == FacetValue("1995 to 1999", years_1995, ("year>=1995", "year<2000"))
    assert facets["size"].kind == "ranges"
    assert {value.value for value in facets["stars"].values} == {0, 1, 2, 3, 4}
    assert sum(value.count for value in facets["size"].values) == matching(WORDS["everything"], (), ())


def test_a_chosen_value_stays_listed_when_no_document_has_it(engine: SearchEngine) -> None:
    [kinds] = [one for one in facets_of(engine, "boat", ("cooking",), ("kind=class",)) if one.field == "kind"]
    assert kinds.values[0] == FacetValue("class", 0, ("kind=class",))


def test_counts_follow_changes(engine: SearchEngine) -> None:
    changed = SearchEngine.from_documents(library(), n_bits=16, method="itq")
    changed.remove([one.id for one in library() if "cooking" in one.labels])
    labels = facets_of(changed, WORDS["everything"])[0]
    assert {value.value for value in labels.values} == {"sailing", "astronomy"}


def test_limits_are_round_and_few_for_any_numbers() -> None:
    def drawn() -> Iterator[np.ndarray[tuple[int], np.dtype[np.float64]]]:
        generator = np.random.default_rng(0)
        for scale in (1e-6, 1.0, 1e9):
            yield generator.normal(0, scale, 200)
            yield generator.lognormal(0, 3, 200) * scale
            yield np.arange(50.0) * scale

    for values in drawn():
        limits = range_limits(values)
        assert 1 <= len(limits) <= 7
        assert limits == sorted(set(limits))
        assert values.min() < limits[0] <= limits[-1] <= values.max()


def test_columns_of_a_large_corpus_follow_small_changes() -> None:
    engine = SearchEngine.from_documents(library(), n_bits=16, method="itq")
    following = FacetCache(reread_below=0)
    generator = random.Random(0)

    def facets(columns: list[FieldColumn]) -> list[tuple[str | None, set[FacetValue]]]:
        matches = find_matches(snapshot, parsed_for(snapshot, WORDS["everything"]))
        counted = count_facets(snapshot, columns, matches, (), ())
        return [(facet.field, set(facet.values)) for facet in counted]

    for step in range(12):
        one = library()[generator.randrange(60)]
        new = {"kind": generator.choice(["class", "protocol"]), "year": 2000 + step, "tags": ["odd", "odd", "new"]}
        if step % 3 == 0:
            engine.add([Document(f"new-{step}", one.text, ("sailing", "boats"), new)])
        elif step % 3 == 1 and one.id in engine:
            engine.update([Document(one.id, one.text, one.labels, new)])
        elif one.id in engine:
            engine.remove([one.id])
        with engine.snapshot() as snapshot:
            assert facets(following.columns(snapshot)) == facets(read_columns(snapshot.reader))


@pytest.mark.slow
def test_counts_of_very_many_matches_are_estimated_from_documents_of_all_times() -> None:
    generator = np.random.default_rng(0)
    words = ["common", "frequent", "other", "another", "word"]
    documents = (
        Document(
            number,
            " ".join(["common", *generator.choice(words, 3)]),
            ("early" if number < 60_000 else "late",),
            {"year": number // 2_000, "parity": number % 2},
        )
        for number in range(120_000)
    )
    engine = SearchEngine.from_documents(documents, n_bits=8, method="lsh")
    with engine.snapshot() as snapshot:
        parsed = parsed_for(snapshot, "common")
        assert count_matches(snapshot, parsed, (), ()) == (120_000, True)
        for labels, where, expected in ((("late",), (), 60_000), ((), ("year>=15", "parity=0"), 45_000)):
            count, is_exact = count_matches(snapshot, parsed, labels, where)
            assert not is_exact
            assert count == pytest.approx(expected, rel=0.03)
        facets = count_facets(snapshot, read_columns(snapshot.reader), find_matches(snapshot, parsed), (), ())
        for facet in facets:
            assert sum(value.count for value in facet.values) == pytest.approx(120_000, rel=0.02)
            if facet.field in (None, "parity"):
                assert [value.count for value in facet.values] == pytest.approx([60_000, 60_000], rel=0.02)
