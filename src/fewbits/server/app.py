"""The application: routes and middleware around an engine, and the web page.

Run as a program, this module prints the OpenAPI description of the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from starlette.staticfiles import StaticFiles

from fewbits import __version__
from fewbits.search import SearchEngine
from fewbits.server.corpus_map import MapBuilder
from fewbits.server.errors import register_exception_handlers
from fewbits.server.middleware import ServiceMiddleware
from fewbits.server.routes import Service, make_routes
from fewbits.server.schemas import Settings
from fewbits.server.telemetry import LOGGER

STATIC = Path(__file__).parent / "static"
REVALIDATE = {"cache-control": "no-cache"}  # browsers may cache files but ask whether they changed


class PageFiles(StaticFiles):
    """Static files of the web page."""

    def file_response(self, *arguments: object, **options: object) -> FileResponse:
        """Return a file that browsers revalidate before they use a cached copy."""
        response = super().file_response(*arguments, **options)  # type: ignore[arg-type]
        response.headers.update(REVALIDATE)
        return response  # type: ignore[return-value]


def create_app(
    engine: SearchEngine,
    settings: Settings | None = None,
    *,
    name: str = "documents",
    folder: Path | None = None,
    use_umap: bool = True,
) -> FastAPI:
    """Create the application for an engine; the map is cached in ``folder``, the engine's folder, if given."""
    settings = settings or Settings()
    service = Service(engine, name, settings)
    maps = MapBuilder(engine, settings.map_documents, folder, use_umap=use_umap)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        preparation = asyncio.create_task(_prepare(service, maps))
        yield
        preparation.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await preparation
        service.workers.stop()

    # FastAPI's documentation pages are disabled because they load scripts from other hosts.
    app = FastAPI(title="fewbits", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    register_exception_handlers(app)
    app.include_router(make_routes(service))
    app.mount("/static", PageFiles(directory=STATIC), name="static")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers=REVALIDATE)

    app.add_middleware(ServiceMiddleware, settings=settings, metrics=service.metrics)
    return app


def openapi_json() -> str:
    """Return the OpenAPI description of the service, which is the same for every engine."""
    engine = SearchEngine.from_texts(["a word", "another word"], n_bits=8, method="lsh")
    return json.dumps(create_app(engine).openapi(), indent=1) + "\n"


async def _prepare(service: Service, maps: MapBuilder) -> None:
    """Load the engine, then compute the map."""
    try:
        await service.workers.run(service.warm_up)
        sample = await service.workers.run(maps.sample)
        cached = await service.workers.run(lambda: maps.read_cached(sample))
        first = cached if cached is not None else await service.workers.run(lambda: maps.compute_pca(sample))
        service.examples = await service.workers.run(lambda: service.answers.examples(sample.documents, first.regions))
        service.map = first
        if cached is None:
            service.map = await maps.compute_umap(sample) or first
    except Exception:
        LOGGER.exception("loading failed")


if __name__ == "__main__":
    print(openapi_json(), end="")
