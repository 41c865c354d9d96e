"""Settings of the service, and its requests and responses as /openapi.json describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field

from fewbits.data.document import LARGEST_ID, DocumentId
from fewbits.search import BitMeaning, DecidingWord, Explanation
from fewbits.search.facets import Facet
from fewbits.search.rerank import LARGEST_BIT_WEIGHT, SEMANTIC_WEIGHT
from fewbits.server.overview import Example

Id = Annotated[int, Field(strict=True, ge=-LARGEST_ID - 1, le=LARGEST_ID)] | Annotated[str, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1)]
BitWeight = Annotated[float, Field(ge=0, le=LARGEST_BIT_WEIGHT, allow_inf_nan=False)]
Rank = Literal["hybrid", "words", "codes"]
Rerank = Literal["none", "bits", "words"]
# The first error of a list is enough: a large body may have one per item.
Labels = Annotated[list[str], FailFast(), Field(max_length=100, description="Only documents with one of these labels.")]
Where = Annotated[
    list[str],
    FailFast(),
    Field(max_length=20, description="Only documents whose metadata meets all conditions, such as year>=2020."),
]


@dataclass(frozen=True)
class Settings:
    """Limits of a service, and the token required to change documents."""

    token: str | None = field(default=None, repr=False)  # None: read-only
    body_bytes: int = 4 << 20
    text_length: int = 100_000  # characters per query or document
    hits: int = 1_000  # per request
    documents: int = 1_000  # per request
    hosts: tuple[str, ...] = ("localhost",)  # names that clients may ask for, besides addresses; "*" allows all
    bodies_bytes: int = 8 << 20  # of all bodies that are being received or processed
    unsent_bytes: int = 64 << 20  # of responses that clients have not taken
    json_depth: int = 32
    json_keys: int = 1_000  # per object
    json_values: int = 100_000  # per body
    request_seconds: float = 30.0
    body_seconds: float = 10.0  # to receive a body
    head_seconds: float = 10.0  # from a connection or a response to the end of the head of the next request
    head_bytes: int = 32 << 10
    head_lines: int = 100
    connections: int = 1_000
    workers: int = 2  # search threads
    waiting: int = 256  # requests that may wait for a worker; more are rejected
    map_documents: int = 12_000


@dataclass(frozen=True)
class SearchParams:
    """Keyword arguments of a search. Only queries with equal parameters are searched in one batch."""

    k: int | None = None
    labels: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    rank: str | None = None
    weight: float | None = None
    bit_weights: tuple[tuple[int, float], ...] = ()
    sort: str | None = None
    rerank: str | None = None
    shortlist: int | None = None

    def keywords(self) -> dict[str, Any]:
        """Return the keyword arguments."""
        return {**vars(self), "bit_weights": dict(self.bit_weights)}


@dataclass(frozen=True)
class ResponseOptions:
    """What a response contains beside the hits."""

    with_text: bool = False
    with_facets: bool = False


class RequestModel(BaseModel):
    """Body of a request; unknown fields are an error."""

    model_config = ConfigDict(extra="forbid")


class HitOptions(RequestModel):
    """Options shared by requests that return hits."""

    k: Count | None = Field(None, description="Number of hits; the default is 10.")
    labels: Labels = []
    where: Where = []
    rank: Rank | None = Field(None, description="What ranks the hits: words and codes (the default), or one of them.")
    weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        None, description=f"Weight of the codes in a hybrid ranking; the default is {SEMANTIC_WEIGHT:g}."
    )
    bit_weights: Annotated[dict[int, BitWeight], Field(max_length=128)] = Field(
        {}, description='Factors by which single bits count, such as {"7": 0, "12": 3}; the others count once.'
    )
    sort: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None, description="Metadata field that orders the 1,000 best documents; with - before it the largest is first."
    )
    fields: Annotated[list[Literal["text"]], Field(max_length=1)] = Field(
        [], description="What a hit contains in addition: text, the whole text of the document."
    )
    facets: bool = Field(False, description="Count the labels and the values of metadata fields of all matches.")
    rerank: Rerank | None = Field(
        None,
        description="Deprecated: none and bits are rank codes, words is rank hybrid.",
        json_schema_extra={"deprecated": True},
    )
    rescore: Rerank | None = Field(
        None, description="Deprecated: the old name of rerank.", json_schema_extra={"deprecated": True}
    )
    shortlist: Count | None = Field(
        None, description="Deprecated: it has no effect.", json_schema_extra={"deprecated": True}
    )

    def search_params(self) -> SearchParams:
        """Return the options as keyword arguments of the engine's searches."""
        old = self.rerank or self.rescore
        labels, where = tuple(self.labels), tuple(self.where)
        bit_weights = tuple(sorted(self.bit_weights.items()))
        return SearchParams(self.k, labels, where, self.rank, self.weight, bit_weights, self.sort, old, self.shortlist)

    def response_options(self) -> ResponseOptions:
        """Return what the response shall contain beside the hits."""
        return ResponseOptions("text" in self.fields, self.facets)


class SearchRequest(HitOptions):
    """Search for documents similar to a text."""

    query: str
    radius: Annotated[int, Field(strict=True, ge=0)] | None = Field(
        None, description="Instead of k: all documents whose codes differ in at most this many bits."
    )


class SimilarRequest(HitOptions):
    """Search for documents similar to a document."""

    id: Id


class ExplainRequest(RequestModel):
    """A hit, and the query that found it: either a text (query) or another document (id)."""

    hit: Id
    query: str | None = None
    id: Id | None = None


class EncodeRequest(RequestModel):
    """Texts to encode."""

    texts: Annotated[list[str], FailFast()]


class DocumentModel(RequestModel):
    """A document to store."""

    id: Id
    text: str
    labels: Annotated[list[str], FailFast()] = []
    metadata: dict[str, Any] = {}


class DocumentsRequest(RequestModel):
    """Documents to add or update."""

    documents: Annotated[list[DocumentModel], FailFast(), Field(min_length=1)]


class RemoveRequest(RequestModel):
    """Ids of documents to remove."""

    ids: Annotated[list[Id], FailFast(), Field(min_length=1)]


@dataclass(frozen=True)
class HitResponse:
    """A document found by a search; places of matching words are in characters, from 0."""

    id: DocumentId
    distance: int  # bits that differ; all if the query or the document has no code
    score: float  # from 0 to 1, the higher the nearer
    lexical: float | None  # parts of the score: words, relative to the best hit; None if codes alone decide
    semantic: float | None  # bits that agree, weighted by the query's confidence in each
    title: str  # the first line, if it is short
    snippet: str  # the part of the text with the most words of the query
    title_marks: list[tuple[int, int]]  # where words of the query stand in the title
    snippet_marks: list[tuple[int, int]]
    labels: list[str]
    metadata: dict[str, Any]
    same_label: float | None  # how likely a hit at this distance has the label of the query; None if not measured
    text: str | None  # the whole text, if the request asks for it


@dataclass(frozen=True)
class SearchResponse:
    """Hits, best first."""

    bits: int  # per code
    hits: list[HitResponse]
    total: int  # documents that have a word of the query and pass the filters; all that pass if codes alone decide
    total_is_exact: bool  # estimated where more than 30,000 documents are compared with filters
    words: list[str]  # of the query, in the vocabulary
    unknown_words: list[str]  # of the query, not in the vocabulary; at most 50
    notes: list[str]  # how the query was understood where it is not clear, and labels and fields that no document has
    facets: list[Facet]  # empty unless the request asks for them


@dataclass(frozen=True)
class SuggestResponse:
    """Words of a query that no document has, and a corrected query."""

    unknown_words: list[str]
    suggestion: str | None


@dataclass(frozen=True)
class ExplainResponse(Explanation):
    """Why a document was found: by its words, and by its bits."""

    words: tuple[DecidingWord, ...] = ()  # of a text query, with their shares of the BM25 score


@dataclass(frozen=True)
class ExamplesResponse:
    """Queries that this corpus answers."""

    examples: list[Example]


@dataclass(frozen=True)
class CodesResponse:
    """Codes as hexadecimal digits; bit 0 is the highest bit of the first digit."""

    bits: int
    codes: list[str]


@dataclass(frozen=True)
class BitsResponse:
    """The meaning of each bit."""

    bits: list[BitMeaning]


@dataclass(frozen=True)
class ChangeResponse:
    """Number of documents changed, and in the engine after the change."""

    changed: int
    documents: int


@dataclass(frozen=True)
class InfoResponse:
    """Facts about the service and its engine."""

    name: str
    documents: int  # in the engine now
    documents_learnt_from: int  # the encoder was trained on
    bits: int
    most_hits: int  # per request
    labels: dict[str, int]  # the 1,000 most common, with document counts
    fields: list[str]  # of the metadata, to filter and sort by
    weight: float  # of the codes in a hybrid ranking, by default
    method: str
    takes_text: bool  # codes are computed from texts, not from embeddings
    searches_text: bool  # queries may be texts; documents with embeddings are found by their words
    writable: bool
    version: str


@dataclass(frozen=True)
class StatusResponse:
    """Health of the service."""

    status: str


@dataclass(frozen=True)
class ErrorFacts:
    """What was wrong, what is allowed, what was received and what to do next."""

    what: str
    allowed: str | None
    got: str | None
    next: str
    request_id: str


@dataclass(frozen=True)
class ErrorResponse:
    """The body of every error response."""

    error: ErrorFacts
