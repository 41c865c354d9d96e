"""Settings of the service, and its requests and responses as /openapi.json describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fewbits.data.document import LARGEST_ID
from fewbits.search import BitMeaning, Hit
from fewbits.search.rerank import SEMANTIC_WEIGHT

Id = Annotated[int, Field(strict=True, ge=-LARGEST_ID - 1, le=LARGEST_ID)] | Annotated[str, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1)]
Rank = Literal["hybrid", "words", "codes"]
Rerank = Literal["none", "bits", "words"]
Labels = Annotated[list[str], Field(max_length=100, description="Only documents with one of these labels.")]
Where = Annotated[
    list[str],
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
    json_depth: int = 32
    request_seconds: float = 30.0
    body_seconds: float = 10.0  # to receive a body
    head_seconds: float = 10.0  # to receive the head of a request, and to keep an idle connection open
    connections: int = 10_000
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
    rerank: str | None = None
    shortlist: int | None = None


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
        return SearchParams(self.k, labels, where, self.rank, self.weight, old, self.shortlist)


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

    texts: list[str]


class DocumentModel(RequestModel):
    """A document to store."""

    id: Id
    text: str
    labels: list[str] = []
    metadata: dict[str, Any] = {}


class DocumentsRequest(RequestModel):
    """Documents to add or update."""

    documents: Annotated[list[DocumentModel], Field(min_length=1)]


class RemoveRequest(RequestModel):
    """Ids of documents to remove."""

    ids: Annotated[list[Id], Field(min_length=1)]


@dataclass(frozen=True)
class SearchResponse:
    """Hits, best first."""

    bits: int  # per code
    hits: list[Hit]
    words: list[str]  # of the query, in the vocabulary
    unknown_words: list[str]  # of the query, not in the vocabulary; at most 50


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
    method: str
    takes_text: bool
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
