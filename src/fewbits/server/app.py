"""The application: an engine, its routes, the page, and the guard before all of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from starlette.staticfiles import StaticFiles

from fewbits import __version__
from fewbits.search import SearchEngine
from fewbits.server.corpus_map import Maps
from fewbits.server.errors import register_exception_handlers
from fewbits.server.middleware import ServiceMiddleware
from fewbits.server.routes import make_routes
from fewbits.server.service import Service
from fewbits.server.settings import Settings
from fewbits.server.telemetry import LOGGER

STATIC = Path(__file__).parent / "static"
FRESH = {"cache-control": "no-cache"}  # browsers ask whether there is a newer one


class Files(StaticFiles):
    """Files of the page."""

    def file_response(self, *arguments: object, **options: object) -> FileResponse:
        """Send a file that a browser may keep but must ask about."""
        response = super().file_response(*arguments, **options)  # type: ignore[arg-type]
        response.headers.update(FRESH)
        return response  # type: ignore[return-value]


def create_app(
    engine: SearchEngine,
    settings: Settings | None = None,
    *,
    name: str = "documents",
    folder: Path | None = None,
    draws_better_map: bool = True,
) -> FastAPI:
    """Make the application of an engine; with its ``folder`` the map is kept there for the next start."""
    chosen = settings or Settings()
    maps = Maps(engine, chosen.map_documents, folder, draws_better=draws_better_map)
    service = Service(engine, name, chosen, maps)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        preparing = asyncio.create_task(_prepare(service))
        yield
        preparing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await preparing
        service.workers.stop()

    # Its own pages of documentation would load scripts from elsewhere.
    app = FastAPI(title="fewbits", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    register_exception_handlers(app)
    app.include_router(make_routes(service))
    app.mount("/static", Files(directory=STATIC), name="static")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers=FRESH)

    app.add_middleware(ServiceMiddleware, settings=chosen, metrics=service.metrics)
    app.state.service = service
    return app


async def _prepare(service: Service) -> None:
    """Read what is needed to answer, then draw the map."""
    try:
        await service.workers.run(service.warm_up)
        await service.workers.run(service.maps.draw)
        await service.maps.improve()
    except Exception:
        LOGGER.exception("preparing failed")
