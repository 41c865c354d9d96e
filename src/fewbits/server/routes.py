"""Routes of the service: each checks the limits and calls one method of the engine in a worker thread."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response

from fewbits import __version__
from fewbits.codes import to_hex
from fewbits.data.document import Document
from fewbits.features import TextVectorizer
from fewbits.search import BitExamples, SearchEngine, Snapshot, suggest
from fewbits.search.rerank import SEMANTIC_WEIGHT
from fewbits.server import schemas
from fewbits.server.answers import Answers
from fewbits.server.corpus_map import CorpusMap
from fewbits.server.errors import JsonResponse, ServiceError
from fewbits.server.overview import Example
from fewbits.server.telemetry import Metrics
from fewbits.server.workers import QueryBatcher, Workers

Result = TypeVar("Result")
MAX_LABELS = 1_000  # in /v1/info
SHORTLIST_PER_HIT = 10  # the longest shortlist, relative to the most hits per request
ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": schemas.ErrorResponse, "description": "The request is invalid."},
    "5XX": {"model": schemas.ErrorResponse, "description": "The service cannot answer the request now."},
}


class Service:
    """State of the service that the routes share: an engine, its limits, worker threads, metrics and map."""

    def __init__(self, engine: SearchEngine, name: str, settings: schemas.Settings) -> None:
        self.engine = engine
        self.name = name
        self.settings = settings
        self.metrics = Metrics()
        self.workers = Workers(settings, self.metrics)
        self.answers = Answers(engine, settings)
        self.batcher = QueryBatcher(self.answers, self.workers, settings, self.metrics)
        self.map: CorpusMap | None = None  # None until it is computed
        self.examples: list[Example] = []
        self.is_ready = False

    def warm_up(self) -> None:
        """Load codes and bit meanings, so that the first request does not wait for them."""
        with self.engine.snapshot() as snapshot:
            self.metrics.documents.set(snapshot.count())
            snapshot.warm_up()
        self.is_ready = True

    @property
    def takes_text(self) -> bool:
        """Return whether queries are texts, not embeddings."""
        return isinstance(self.engine.features, TextVectorizer)


def make_routes(service: Service) -> APIRouter:
    """Return the routes under /v1 and those for monitoring."""
    router = APIRouter(responses=ERRORS)
    router.include_router(_search_routes(service))
    router.include_router(_read_routes(service))
    router.include_router(_write_routes(service))
    router.include_router(_monitoring_routes(service))
    return router


def _search_routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["search"])
    engine, settings, run = service.engine, service.settings, service.workers.run

    @router.post("/search", response_model=schemas.SearchResponse)
    async def search(request: schemas.SearchRequest) -> JsonResponse:
        """Search for documents similar to a text."""
        _check_text(settings, request.query)
        _check_options(settings, request)
        params, options = request.search_params(), request.response_options()
        if request.radius is None:
            return JsonResponse(await service.batcher.search(request.query, params, options))
        if params != schemas.SearchParams(labels=params.labels, where=params.where):
            raise ServiceError(422, "give radius, or k with rank and weight, not both")
        radius = request.radius
        return JsonResponse(await run(lambda: service.answers.within(request.query, radius, params, options)))

    @router.get("/suggest", response_model=schemas.SuggestResponse)
    async def spelling(query: str) -> JsonResponse:
        """Name the words of a query that no document has, and suggest a corrected query."""
        _check_text(settings, query)
        found = await run(lambda: _read(engine, lambda snapshot: suggest(snapshot, query)))
        return JsonResponse(schemas.SuggestResponse(list(found.unknown), found.corrected))

    @router.post("/similar", response_model=schemas.SearchResponse)
    async def similar(request: schemas.SimilarRequest) -> JsonResponse:
        """Search for documents similar to a document."""
        _check_options(settings, request)
        params, options = request.search_params(), request.response_options()
        return JsonResponse(await run(lambda: service.answers.similar(request.id, params, options)))

    @router.post("/explain", response_model=schemas.ExplainResponse)
    async def explain(request: schemas.ExplainRequest) -> JsonResponse:
        """Explain the distance of a document from a text or from another document."""
        query, id = request.query, request.id
        if query is not None and id is None:
            _check_text(settings, query)
        elif id is None or query is not None:
            raise ServiceError(422, "give either query or id", allowed="one of them")
        return JsonResponse(await run(lambda: service.answers.explain(query, id, request.hit)))

    @router.post("/encode", response_model=schemas.CodesResponse)
    async def encode(request: schemas.EncodeRequest) -> JsonResponse:
        """Encode texts."""
        _check_count(settings, request.texts)
        _check_text(settings, *request.texts)
        _check_takes_text(service)
        codes = await run(lambda: list(to_hex(engine.encode(request.texts), engine.n_bits)))
        return JsonResponse(schemas.CodesResponse(engine.n_bits, codes))

    return router


def _read_routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["search"])
    engine, run = service.engine, service.workers.run

    @router.get("/bits", response_model=schemas.BitsResponse)
    async def bits() -> JsonResponse:
        """Describe each bit by the words that raise and lower it."""
        return JsonResponse(schemas.BitsResponse(await run(engine.bits)))

    @router.get("/bits/{bit}", response_model=BitExamples)
    async def bit(bit: int, k: Annotated[int, Query(ge=1)] = 5) -> JsonResponse:
        """Describe one bit by words and by the documents with the largest margins."""
        _check_hits(service.settings, k)
        if not 0 <= bit < engine.n_bits:
            allowed = f"0 to {engine.n_bits - 1}"
            hint = f"Choose a bit from {allowed}."
            raise ServiceError(404, "there is no such bit", allowed=allowed, got=bit, next=hint)
        return JsonResponse(await run(lambda: _read(engine, lambda snapshot: snapshot.bit_examples(bit, k))))

    @router.get("/document", response_model=Document)
    async def document(id: str) -> JsonResponse:
        """Return a document."""
        return JsonResponse(await run(lambda: _read(engine, lambda snapshot: snapshot.document(snapshot.parse_id(id)))))

    @router.get("/map", response_model=CorpusMap)
    async def map() -> JsonResponse:
        """Return documents as points in the plane, near each other if their codes are similar."""
        if service.map is None:
            raise ServiceError(503, "the map is being computed", next="Try again in a few seconds.")
        return JsonResponse(service.map)

    @router.get("/examples", response_model=schemas.ExamplesResponse)
    async def examples() -> JsonResponse:
        """Return queries that this corpus answers, derived from its documents at the start of the service."""
        if service.map is None:
            raise ServiceError(503, "the examples are being computed", next="Try again in a few seconds.")
        return JsonResponse(schemas.ExamplesResponse(service.examples))

    @router.get("/info", response_model=schemas.InfoResponse)
    async def info() -> JsonResponse:
        """Return facts about the service and its engine."""
        return JsonResponse(await run(lambda: _info(service)))

    return router


def _write_routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["change"], dependencies=[Depends(_require_token(service.settings.token))])
    engine, settings = service.engine, service.settings

    async def change(work: Callable[[], int]) -> JsonResponse:
        changed, count = await service.workers.run(lambda: (work(), _read(engine, Snapshot.count)))
        service.metrics.documents.set(count)
        return JsonResponse(schemas.ChangeResponse(changed, count))

    def to_documents(request: schemas.DocumentsRequest) -> list[Document]:
        _check_count(settings, request.documents)
        _check_text(settings, *(document.text for document in request.documents))
        return [
            Document(document.id, document.text, tuple(document.labels), document.metadata)
            for document in request.documents
        ]

    @router.post("/add", response_model=schemas.ChangeResponse)
    async def add(request: schemas.DocumentsRequest) -> JsonResponse:
        """Add documents. If one of them cannot be added, none is."""
        documents = to_documents(request)
        return await change(lambda: engine.add(documents))

    @router.post("/update", response_model=schemas.ChangeResponse)
    async def update(request: schemas.DocumentsRequest) -> JsonResponse:
        """Replace documents with the same ids. If one of them cannot be replaced, none is."""
        documents = to_documents(request)
        return await change(lambda: engine.update(documents))

    @router.post("/remove", response_model=schemas.ChangeResponse)
    async def remove(request: schemas.RemoveRequest) -> JsonResponse:
        """Remove documents. If one id is unknown, none is removed."""
        _check_count(settings, request.ids)
        return await change(lambda: engine.remove(request.ids))

    return router


def _monitoring_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["monitoring"])

    @router.get("/healthz", response_model=schemas.StatusResponse)
    async def healthz() -> JsonResponse:
        """Report that the process is alive."""
        return JsonResponse(schemas.StatusResponse("ok"))

    @router.get("/readyz", response_model=schemas.StatusResponse)
    async def readyz() -> JsonResponse:
        """Report whether the engine is loaded."""
        if not service.is_ready:
            raise ServiceError(503, "the engine is still loading", next="Try again in a second.")
        return JsonResponse(schemas.StatusResponse("ready"))

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Return all metrics in the text format of Prometheus."""
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def _require_token(token: str | None) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency that rejects requests without the token; all requests if there is no token."""

    async def check(request: Request) -> None:
        if token is None:
            hint = "Start it with a token to allow changes: FEWBITS_TOKEN=... fewbits serve ENGINE"
            raise ServiceError(403, "this service is read-only", next=hint)
        given = request.headers.get("authorization", "")
        # Constant-time comparison, so that response times reveal nothing about the token.
        if not hmac.compare_digest(given.encode("latin-1"), f"Bearer {token}".encode()):
            got = "another token" if given else "no token"
            raise ServiceError(401, "this request requires the token", allowed="Authorization: Bearer TOKEN", got=got)

    return check


def _read(engine: SearchEngine, read: Callable[[Snapshot], Result]) -> Result:
    """Call a function with a snapshot of the engine."""
    with engine.snapshot() as snapshot:
        return read(snapshot)


def _info(service: Service) -> schemas.InfoResponse:
    with service.engine.snapshot() as snapshot:
        count, labels, model_info = snapshot.count(), snapshot.labels(), snapshot.model.info
        fields, searches_text = snapshot.reader.fields(), snapshot.model.has_words
    return schemas.InfoResponse(
        name=service.name,
        documents=count,
        documents_learnt_from=model_info.documents_learnt_from,
        bits=service.engine.n_bits,
        most_hits=service.settings.hits,
        labels=dict(islice(labels.items(), MAX_LABELS)),
        fields=fields[:MAX_LABELS],
        weight=SEMANTIC_WEIGHT,
        method=model_info.method,
        takes_text=service.takes_text,
        searches_text=searches_text,
        writable=service.settings.token is not None,
        version=__version__,
    )


def _check_text(settings: schemas.Settings, *texts: str) -> None:
    longest = max(map(len, texts), default=0)
    if longest > settings.text_length:
        allowed = f"{settings.text_length} characters"
        raise ServiceError(413, "a text is too long", allowed=allowed, got=longest, next="Shorten it.")


def _check_count(settings: schemas.Settings, items: Sequence[object]) -> None:
    if len(items) > settings.documents:
        allowed = f"{settings.documents} per request"
        raise ServiceError(413, "too many documents", allowed=allowed, got=len(items), next="Send them in parts.")


def _check_hits(settings: schemas.Settings, k: int | None) -> None:
    if k is not None and k > settings.hits:
        raise ServiceError(422, "too many hits", allowed=f"1 to {settings.hits}", got=k, next="Request fewer.")


def _check_options(settings: schemas.Settings, options: schemas.HitOptions) -> None:
    _check_hits(settings, options.k)
    longest = SHORTLIST_PER_HIT * settings.hits
    if options.shortlist is not None and options.shortlist > longest:
        raise ServiceError(422, "the shortlist is too long", allowed=f"1 to {longest}", got=options.shortlist)
    if options.rank is not None and (options.rerank or options.rescore) is not None:
        raise ServiceError(422, "give rank, not rerank", got="both", next="rank replaces rerank and rescore.")
    if options.rerank is not None and options.rescore is not None:
        raise ServiceError(422, "give rerank, not rescore", got="both", next="rescore is the old name of rerank.")


def _check_takes_text(service: Service) -> None:
    if not service.takes_text:
        raise ServiceError(422, "this engine searches embeddings, not texts", next="Use /v1/similar.")
