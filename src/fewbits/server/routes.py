"""The addresses of the service: each calls one method of the engine."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from fewbits import __version__
from fewbits.codes import to_hex
from fewbits.data.document import Document, DocumentId
from fewbits.search import BitExamples, Explanation, SearchEngine
from fewbits.server import schemas
from fewbits.server.corpus_map import CorpusMap
from fewbits.server.errors import Reply, ServiceError
from fewbits.server.service import Service
from fewbits.server.workers import SearchParams

LABELS = 1_000  # that are told, the most common ones
ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": schemas.Error, "description": "What was asked cannot be done."},
    "5XX": {"model": schemas.Error, "description": "The service cannot do it now."},
}


def make_routes(service: Service) -> APIRouter:
    """All addresses under /v1, and those that machines look at."""
    router = APIRouter(responses=ERRORS)
    router.include_router(_searching(service))
    router.include_router(_describing(service))
    router.include_router(_writing(service))
    router.include_router(_watching(service))
    return router


def _searching(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["search"])
    engine, run = service.engine, service.workers.run

    @router.post("/search", response_model=schemas.Hits)
    async def search(asked: schemas.SearchRequest) -> Reply:
        """Find the documents that are nearest to a text."""
        service.check_text(asked.query)
        _check_wanted(service, asked)
        if asked.radius is None:
            wish = SearchParams(asked.k, tuple(asked.labels), tuple(asked.where), asked.rescore, asked.shortlist)
            return Reply(await service.batches.search(asked.query, wish))
        if asked.k is not None or asked.rescore is not None or asked.shortlist is not None:
            raise ServiceError(422, "give radius, or k with rescore and shortlist, not both")
        return Reply(await run(lambda: service.within(asked.query, asked.radius or 0, asked.labels, asked.where)))

    @router.post("/similar", response_model=schemas.Hits)
    async def similar(asked: schemas.SimilarRequest) -> Reply:
        """Find the documents that are nearest to a document."""
        _check_wanted(service, asked)
        wanted = asked.model_dump(exclude={"id", "k"})
        hits = await run(lambda: engine.similar(_own(engine, asked.id), asked.k, **wanted))
        return Reply({"bits": engine.n_bits, "hits": hits, "words": [], "unknown_words": []})

    @router.post("/explain", response_model=Explanation)
    async def explain(asked: schemas.ExplainRequest) -> Reply:
        """Tell why a document is as near as it is to a text, or to another document."""
        if (asked.query is None) == (asked.id is None):
            raise ServiceError(422, "a hit is explained by a query or by an id", allowed="one of them")
        if asked.query is not None:
            query = asked.query
            service.check_text(query)
            _check_takes_text(service)
            return Reply(await run(lambda: engine.explain(query, _own(engine, asked.hit))))
        assert asked.id is not None
        id = asked.id
        return Reply(await run(lambda: engine.explain_similar(_own(engine, id), _own(engine, asked.hit))))

    @router.post("/encode", response_model=schemas.Codes)
    async def encode(asked: schemas.EncodeRequest) -> Reply:
        """Turn texts into codes."""
        service.check_number(asked.texts)
        service.check_text(*asked.texts)
        _check_takes_text(service)
        codes = await run(lambda: list(to_hex(engine.encode(asked.texts), engine.n_bits)))
        return Reply({"bits": engine.n_bits, "codes": codes})

    return router


def _describing(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["search"])
    engine, run = service.engine, service.workers.run

    @router.get("/bits", response_model=schemas.Bits)
    async def bits() -> Reply:
        """Tell what each bit is about."""
        return Reply({"bits": await run(engine.bits)})

    @router.get("/bits/{bit}", response_model=BitExamples)
    async def bit(bit: int, k: Annotated[int, Query(ge=1)] = 5) -> Reply:
        """Tell what one bit is about, with documents that are sure of it."""
        service.check_hits(k)
        if not 0 <= bit < engine.n_bits:
            allowed = f"0 to {engine.n_bits - 1}"
            hint = f"Choose a bit from {allowed}."
            raise ServiceError(404, "there is no such bit", allowed=allowed, got=bit, next=hint)
        return Reply(await run(lambda: engine.bit_examples(bit, k)))

    @router.get("/document", response_model=Document)
    async def document(id: str) -> Reply:
        """Give the document with an id."""
        return Reply(await run(lambda: engine.document(engine.read_id(id))))

    @router.get("/map", response_model=CorpusMap)
    async def map() -> Reply:
        """Give the documents as points, near each other where their codes are."""
        if service.maps.map is None:
            raise ServiceError(503, "the map is being drawn", next="Ask again in some seconds.")
        return Reply(service.maps.map)

    @router.get("/info", response_model=schemas.Info)
    async def info() -> Reply:
        """Tell what this service searches."""
        return Reply(await run(lambda: _info(service)))

    return router


def _writing(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["change"], dependencies=[Depends(_needs_token(service))])
    engine = service.engine

    async def change(work: Callable[[], int]) -> Reply:
        done, count = await service.workers.run(lambda: (work(), engine.count()))
        service.metrics.documents.set(count)
        return Reply({"changed": done, "documents": count})

    def given(asked: schemas.DocumentsRequest) -> list[Document]:
        service.check_number(asked.documents)
        service.check_text(*(document.text for document in asked.documents))
        return [
            Document(document.id, document.text, tuple(document.labels), document.metadata)
            for document in asked.documents
        ]

    @router.post("/add", response_model=schemas.Changed)
    async def add(asked: schemas.DocumentsRequest) -> Reply:
        """Add documents: all of them, or none where one cannot be added."""
        documents = given(asked)
        return await change(lambda: engine.add(documents))

    @router.post("/update", response_model=schemas.Changed)
    async def update(asked: schemas.DocumentsRequest) -> Reply:
        """Put documents in the place of those with the same ids: all of them, or none."""
        documents = given(asked)
        return await change(lambda: engine.update(documents))

    @router.post("/remove", response_model=schemas.Changed)
    async def remove(asked: schemas.RemoveRequest) -> Reply:
        """Remove documents: all of them, or none where an id is unknown."""
        service.check_number(asked.ids)
        return await change(lambda: engine.remove(asked.ids))

    return router


def _watching(service: Service) -> APIRouter:
    router = APIRouter(tags=["watch"])

    @router.get("/healthz", response_model=schemas.Status)
    async def healthz() -> Reply:
        """Tell that the process lives."""
        return Reply({"status": "ok"})

    @router.get("/readyz", response_model=schemas.Status)
    async def readyz() -> Reply:
        """Tell whether queries are answered without waiting for what is still being read."""
        if not service.is_ready:
            raise ServiceError(503, "the engine is being read", next="Ask again in a second.")
        return Reply({"status": "ready"})

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Give all figures in Prometheus's format."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def _needs_token(service: Service) -> Callable[[Request], Awaitable[None]]:
    token = service.settings.token

    async def check(request: Request) -> None:
        if token is None:
            hint = "Start it with a token for writing: FEWBITS_TOKEN=... fewbits serve ENGINE"
            raise ServiceError(403, "this service is read-only", next=hint)
        given = request.headers.get("authorization", "")
        # Compared in constant time: how long it takes tells nothing about the token.
        if not hmac.compare_digest(given.encode("latin-1"), f"Bearer {token}".encode()):
            got = "another token" if given else "no token"
            raise ServiceError(401, "writing needs the token", allowed="Authorization: Bearer TOKEN", got=got)

    return check


def _own(engine: SearchEngine, id: DocumentId) -> DocumentId:
    """An id as the engine has it: a page has only the text of a number."""
    return engine.read_id(id) if isinstance(id, str) else id


def _info(service: Service) -> schemas.Info:
    engine = service.engine
    facts = engine.facts
    return schemas.Info(
        name=service.name,
        documents=engine.count(),
        documents_learnt_from=int(facts["documents_learnt_from"]),
        bits=engine.n_bits,
        most_hits=service.settings.hits,
        labels=dict(islice(engine.labels().items(), LABELS)),
        method=str(facts["method"]),
        takes_text=service.takes_text,
        writable=service.settings.token is not None,
        version=__version__,
    )


def _check_wanted(service: Service, wanted: schemas.HitOptions) -> None:
    service.check_hits(wanted.k)
    service.check_shortlist(wanted.shortlist)


def _check_takes_text(service: Service) -> None:
    if not service.takes_text:
        raise ServiceError(422, "this engine was made from embeddings: it takes no texts", next="Use /v1/similar.")
