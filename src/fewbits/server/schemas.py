"""What is asked and what is answered, as /openapi.json describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fewbits.data.document import LARGEST_ID
from fewbits.search import BitMeaning, Hit

Id = Annotated[int, Field(strict=True, ge=-LARGEST_ID - 1, le=LARGEST_ID)] | Annotated[str, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1)]
Labels = Annotated[list[str], Field(max_length=100, description="Only documents with one of these labels.")]
Where = Annotated[
    list[str], Field(max_length=20, description="Only documents whose metadata passes all, such as year>=2020.")
]


class RequestModel(BaseModel):
    """Something sent to the service: a name that is not known is an error."""

    model_config = ConfigDict(extra="forbid")


class HitOptions(RequestModel):
    """What hits are wanted."""

    k: Count | None = Field(None, description="Number of hits; ten without it.")
    labels: Labels = []
    where: Where = []
    rescore: Literal["none", "bits", "words"] | None = Field(None, description="What decides the order.")
    shortlist: Count | None = Field(None, description="Documents whose words are looked at; 3000 without it.")


class SearchRequest(HitOptions):
    """A text to search for."""

    query: str
    radius: Annotated[int, Field(strict=True, ge=0)] | None = Field(
        None, description="Instead of k: all documents within so many differing bits."
    )


class SimilarRequest(HitOptions):
    """A document to find others like."""

    id: Id


class ExplainRequest(RequestModel):
    """A hit, and what found it: a text or another document."""

    hit: Id
    query: str | None = None
    id: Id | None = None


class EncodeRequest(RequestModel):
    """Texts to encode."""

    texts: list[str]


class DocumentModel(RequestModel):
    """A document to keep."""

    id: Id
    text: str
    labels: list[str] = []
    metadata: dict[str, Any] = {}


class DocumentsRequest(RequestModel):
    """Documents to add or update."""

    documents: Annotated[list[DocumentModel], Field(min_length=1)]


class RemoveRequest(RequestModel):
    """Documents to remove."""

    ids: Annotated[list[Id], Field(min_length=1)]


@dataclass(frozen=True)
class Hits:
    """Documents that were found, the nearest first."""

    bits: int  # of a code
    hits: list[Hit]
    words: list[str]  # of the query, that the engine knows
    unknown_words: list[str]  # of the query, that say nothing to it; the first of them where they are many


@dataclass(frozen=True)
class Codes:
    """Codes as hexadecimal digits; bit 0 is the highest bit of the first digit."""

    bits: int
    codes: list[str]


@dataclass(frozen=True)
class Bits:
    """What each bit is about."""

    bits: list[BitMeaning]


@dataclass(frozen=True)
class Changed:
    """What a change did."""

    changed: int
    documents: int  # there are now


@dataclass(frozen=True)
class Info:
    """What this service searches."""

    name: str
    documents: int  # there are now
    documents_learnt_from: int  # when the bits were learnt
    bits: int
    most_hits: int  # of one request
    labels: dict[str, int]  # the 1,000 most common, with the number of documents
    method: str
    takes_text: bool
    writable: bool
    version: str


@dataclass(frozen=True)
class Status:
    """Whether the service is well."""

    status: str


@dataclass(frozen=True)
class ErrorFacts:
    """What was wrong, what is allowed, what was got, and what to do next."""

    what: str
    allowed: str | None
    got: str | None
    next: str
    request_id: str


@dataclass(frozen=True)
class Error:
    """The shape of every error."""

    error: ErrorFacts
