"""Responses to searches: hits with snippets, the number of matches, facets and likelihoods, all of one state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fewbits.data.document import Document, DocumentId
from fewbits.errors import DataError
from fewbits.search import DecidingWord, Explanation, Hit, SearchEngine, Snapshot
from fewbits.search.calibration import Calibration
from fewbits.search.facets import Facet, FacetCache, count_facets, count_matches, find_matches, parsed_for
from fewbits.search.rerank import CODES, OLD_RANKS, read_hits
from fewbits.search.snippets import Highlighter, highlighter_for
from fewbits.search.words import ParsedQuery, plain
from fewbits.server.overview import Example, Region, find_examples
from fewbits.server.schemas import ExplainResponse, HitResponse, ResponseOptions, SearchParams, SearchResponse, Settings

MAX_UNKNOWN_WORDS = 50  # per response, as a query may be a long text


class Answers:
    """Searches an engine and describes what was found."""

    def __init__(self, engine: SearchEngine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._facets = FacetCache()

    def search_many(
        self, queries: Sequence[str], params: SearchParams, options: Sequence[ResponseOptions]
    ) -> list[SearchResponse | Exception]:
        """Search for texts; a text that nothing can answer gets an error in the place of its response."""
        with self._engine.snapshot() as snapshot:
            found = snapshot.search_texts(queries, **params.keywords())
            return [
                hits if isinstance(hits, Exception) else self._respond(snapshot, hits, params, wanted, query)
                for query, hits, wanted in zip(queries, found, options, strict=True)
            ]

    def similar(self, id: DocumentId, params: SearchParams, options: ResponseOptions) -> SearchResponse:
        """Search for documents similar to a stored one."""
        with self._engine.snapshot() as snapshot:
            id = snapshot.parse_id(id) if isinstance(id, str) else id
            return self._respond(snapshot, snapshot.similar(id, **params.keywords()), params, options, id=id)

    def within(self, query: str, radius: int, params: SearchParams, options: ResponseOptions) -> SearchResponse:
        """Return all documents within a distance of a text, at most as many as a response may have."""
        with self._engine.snapshot() as snapshot:
            code = snapshot.model.encode_query(query).codes
            [ranked] = snapshot.rank_within(code, radius, snapshot.allowed(params.labels, params.where, None))
            [hits] = read_hits([ranked.take(slice(self._settings.hits))], snapshot.reader)  # not all that were found
            return self._respond(snapshot, hits, params, options, query, total=len(ranked.positions))

    def explain(self, query: str | None, id: DocumentId | None, hit: DocumentId) -> ExplainResponse:
        """Explain a hit of a text, or of the document with an id, by words and by codes.

        A text or document without a known word is explained by words alone.
        """
        with self._engine.snapshot() as snapshot:
            hit = snapshot.parse_id(hit) if isinstance(hit, str) else hit
            if query is None:
                assert id is not None
                id = snapshot.parse_id(id) if isinstance(id, str) else id
                found = snapshot.explain(snapshot.encode_document(snapshot.position(id)), hit)
                return ExplainResponse(**vars(found), words=())
            parsed = parsed_for(snapshot, query)
            [position] = snapshot.reader.positions([hit])
            shares = {} if snapshot.words is None else snapshot.words.shares(parsed, position)
            words = tuple(DecidingWord(word, round(share, 4)) for word, share in shares.items())
            try:
                found = snapshot.explain(snapshot.model.encode_query(parsed.text), hit)
            except DataError:
                if not words:
                    raise
                found = Explanation(hit, snapshot.index.n_bits, 0.0, (), ())
            return ExplainResponse(**vars(found), words=words)

    def examples(self, documents: Sequence[Document], regions: Sequence[Region]) -> list[Example]:
        """Return queries that this corpus answers."""
        with self._engine.snapshot() as snapshot:
            return find_examples(snapshot, documents, regions, self._facets.columns(snapshot))

    def _respond(
        self,
        snapshot: Snapshot,
        hits: Sequence[Hit],
        params: SearchParams,
        options: ResponseOptions,
        query: str | None = None,
        *,
        id: DocumentId | None = None,
        total: int | None = None,
    ) -> SearchResponse:
        """Describe the hits of a text, or of the document with an id."""
        parsed = None if query is None else parsed_for(snapshot, query)
        by_codes = total is not None or (params.rank or OLD_RANKS.get(params.rerank or "")) == CODES
        by_words = None if by_codes else parsed
        is_exact = True
        if total is None:
            total, is_exact = count_matches(snapshot, by_words, params.labels, params.where)
            total -= id is not None and _passes(snapshot, id, params)
        highlighter = highlighter_for(snapshot, parsed if not by_codes or query is None else plain(query))
        calibration = Calibration.of(snapshot.model.info)

        def measured(distance: int) -> float | None:
            return None if calibration is None else calibration.same_label(distance, query, by_codes=by_codes)

        vectorizer, is_text = snapshot.model.features, snapshot.model.takes_text
        return SearchResponse(
            bits=snapshot.index.n_bits,
            total=total,
            total_is_exact=is_exact,
            hits=[_describe(hit, highlighter, measured, with_text=options.with_text) for hit in hits],
            words=[] if query is None or not is_text else vectorizer.known_words(query),
            unknown_words=[] if query is None or not is_text else vectorizer.unknown_words(query, MAX_UNKNOWN_WORDS),
            notes=[*(by_words.notes if by_words is not None else ()), *_unknown_names(snapshot, params, bool(hits))],
            facets=self._count(snapshot, by_words, params) if options.with_facets else [],
        )

    def _count(self, snapshot: Snapshot, query: ParsedQuery | None, params: SearchParams) -> list[Facet]:
        matches = find_matches(snapshot, query)
        return count_facets(snapshot, self._facets.columns(snapshot), matches, params.labels, params.where)


def _unknown_names(snapshot: Snapshot, params: SearchParams, has_hits: bool) -> list[str]:
    """Return a sentence for each label or field of the request that no document has."""
    unknown = [] if has_hits else snapshot.unknown_in_filters(params.labels, params.where)
    field = (params.sort or "").removeprefix("-")
    if field and not snapshot.reader.has_field(field):
        unknown.append(f"Hits are not sorted: no document has the metadata {field!r}.")
    return unknown


def _passes(snapshot: Snapshot, id: DocumentId, params: SearchParams) -> bool:
    return bool(snapshot.allowed(params.labels, params.where, [id]))


def _describe(
    hit: Hit, highlighter: Highlighter, same_label: Callable[[int], float | None], *, with_text: bool
) -> HitResponse:
    found = highlighter.snippet(hit.text)
    return HitResponse(
        id=hit.id,
        distance=hit.distance,
        score=hit.score,
        lexical=hit.lexical,
        semantic=hit.semantic,
        title=found.title,
        snippet=found.text,
        title_marks=list(found.title_marks),
        snippet_marks=list(found.marks),
        labels=list(hit.labels),
        metadata=hit.metadata,
        same_label=same_label(hit.distance),
        text=hit.text if with_text else None,
    )
