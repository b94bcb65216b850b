"""Answer requests: pages, their data, and pictures."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from remuda.errors import UserError, explain
from remuda.reports.page import html
from remuda.reports.watch.following import Answer
from remuda.reports.watch.library import PICTURE, Library, NotFound

MAX_RUNS = 50  # in one comparison
MAX_NAME = 200  # characters of a generation
PICTURE_OF_RUN = re.compile(rf"(.+)/({PICTURE.pattern})", re.DOTALL)


class _Any(PathConvertor):
    """Any text; names of folders may contain line breaks, which ``path`` does not match."""

    regex = r"[\s\S]*"


register_url_convertor("any", _Any())


def make_app(library: Library) -> ASGIApp:
    """Return the application for a folder of runs, or for one run; a folder may become a run."""
    pages = _Pages(library)
    handlers: Any = {404: pages.not_found, NotFound: pages.not_found}
    routes = [
        Route("/", pages.index),
        Route("/data", pages.index),
        Route("/compare", pages.comparison),
        Route("/compare/data", pages.comparison),
        Route("/run/{path:any}", pages.run),
    ]
    folder = Starlette(routes=routes, exception_handlers=handlers)
    routes = [Route("/{path:any}", pages.single)]
    run = Starlette(routes=routes, exception_handlers=handlers)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await (run if library.is_run else folder)(scope, receive, send)

    return app


class _Pages:
    """The answers to all addresses. Everything that reads files runs in a thread."""

    def __init__(self, library: Library):
        self.library = library

    async def single(self, request: Request) -> Response:
        """Answer for the only run: ``/``, ``/data`` and its pictures."""
        return await self._run(request, "", request.path_params["path"])

    async def run(self, request: Request) -> Response:
        """Answer for ``/run/NAME/``, ``/run/NAME/data`` and the run's pictures."""
        path = request.path_params["path"]
        if found := PICTURE_OF_RUN.fullmatch(path):
            return await self._run(request, *found.groups())
        name, slash, rest = path.rpartition("/")
        if slash and rest in ("", "data"):
            return await self._run(request, name, rest)
        await run_in_threadpool(self.library.run, path)  # raises if there is no such run
        return RedirectResponse(f"{quote(rest)}/", 303)

    async def _run(self, request: Request, name: str, part: str) -> Response:
        library = self.library
        if part == "data":
            query = request.query_params
            generation, start = query.get("generation", ""), _number(query.get("from", "0"))
            if start is None or len(generation) > MAX_NAME:
                return self._error(request, 400, "from is not the number of a point")
            answer = library.fresh(name, generation, start)
            if answer is None:
                answer = await _answer(lambda: library.run(name).data(generation, start))
            return self._send(request, answer)
        if part == "":
            return self._send(request, await _answer(lambda: library.run(name).page()))
        found = await run_in_threadpool(lambda: library.picture(library.run(name), part))
        age = 3600 if "v" in request.query_params else 10
        return Response(found, 200, {"Cache-Control": f"private, max-age={age}"}, "image/png")

    async def index(self, request: Request) -> Response:
        """Answer for the index of a folder and its data."""
        kind = "data" if request.url.path.endswith("/data") else "page"
        return self._send(request, await _answer(lambda: self.library.index(kind)))

    async def comparison(self, request: Request) -> Response:
        """Answer for a comparison of runs and its data."""
        kind = "data" if request.url.path.endswith("/data") else "page"
        names = list(dict.fromkeys(request.query_params.getlist("run")))
        if len(names) > MAX_RUNS:
            text = f"too many runs to compare: choose at most {MAX_RUNS}"
            return self._error(request, 400, text)
        return self._send(request, await _answer(lambda: self.library.comparison(names, kind)))

    async def not_found(self, request: Request, error: Any) -> Response:
        """Answer for an address that does not exist."""
        return self._error(request, 404, "there is no such page")

    def _send(self, request: Request, answer: Answer | UserError) -> Response:
        if isinstance(answer, UserError):
            return self._error(request, 400, str(answer))
        return _response(request, answer)

    def _error(self, request: Request, status: int, text: str) -> Response:
        """Return an error: as JSON if a page's script asks for data, as a page otherwise."""
        if request.url.path.endswith("/data"):
            return JSONResponse({"error": text}, status)
        link = "The run" if self.library.is_run else "All runs"
        return HTMLResponse(html.message("remuda watch", text, link, "/"), status)


async def _answer(make: Callable[[], Answer]) -> Answer | UserError:
    """Make an answer in a thread; return the error if files of the run cannot be read."""
    try:
        return await run_in_threadpool(make)
    except UserError as error:
        return error
    except OSError as error:
        return UserError(explain(error))


def _response(request: Request, answer: Answer) -> Response:
    headers = {"ETag": answer.tag, "Cache-Control": "private, no-cache", "Vary": "Accept-Encoding"}
    if answer.tag in request.headers.get("if-none-match", "").split(", "):
        return Response(status_code=304, headers=headers)
    body = answer.plain
    if answer.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        body = answer.packed
        headers["Content-Encoding"] = "gzip"
    kind = "text/html; charset=utf-8" if answer.is_page else "application/json"
    return Response(body, 200, headers, kind)


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= 9
    return int(text) if is_number else None
