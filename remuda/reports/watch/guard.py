"""Check every request before any other code sees it: method, size, host and token."""

import asyncio
import ipaddress
import re
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_PATH, MAX_QUERY, MAX_HEADERS = 1_000, 6_000, 64  # characters, characters, lines
MAX_HEADER_BYTES = 16_384
SECONDS = 30.0  # after which a request ends
METHODS = ("GET", "HEAD")
HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """Refuse requests that are not meant for this server, and limit what one can cost.

    Without a token, the server is bound to the loopback interface. It then answers only requests
    for localhost, so that a page from the internet cannot reach it through a name that it made up.
    """

    def __init__(self, app: ASGIApp, token: str = "", cookie: str = "remuda-watch"):
        self.app, self.token, self.cookie = app, token, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return  # no web sockets
        answer = _Sender(send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, answer)
            return
        try:
            async with asyncio.timeout(SECONDS):
                await self.app(scope, receive, answer)
        except TimeoutError:
            if not answer.has_started:
                await _refuse(503, "the request took too long")(scope, receive, answer)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that must not pass; None if it may."""
        headers = Headers(scope=scope)
        if scope["method"] not in METHODS:
            return _refuse(405, "this server only reads: use GET", Allow=", ".join(METHODS))
        if len(scope["raw_path"]) > MAX_PATH or len(scope["query_string"]) > MAX_QUERY:
            return _refuse(414, "the address is too long")
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        if len(headers) > MAX_HEADERS or size > MAX_HEADER_BYTES:
            return _refuse(431, "the headers are too long")
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return _refuse(413, "requests must not have a body")
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            return _refuse(400, "the request does not name one host")
        if self.token:
            return self._check_token(scope, headers)
        if not is_loopback_name(hosts[0]):
            return _refuse(421, "this server answers only for localhost")
        return None

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        given = [value for name, value in query if name == "token"]
        if given:
            if not self._is_token(given[-1]):
                return _forbidden()
            # Go to the same address without the token, so that it is not in the history.
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            name = quote(scope["path"].rpartition("/")[2])
            response = RedirectResponse(f"./{name}{'?' if rest else ''}{rest}", 303)
            response.set_cookie(self.cookie, self.token, path="/", httponly=True, samesite="strict")
            return response
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return _forbidden()
        kept = cookies.get(self.cookie)
        return None if kept is not None and self._is_token(kept.value) else _forbidden()

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode("utf-8", "replace"), self.token.encode())


def is_loopback_name(host: str) -> bool:
    """Return whether a Host header names this computer itself; any port may follow.

    The port is not checked because ssh may forward another one.
    """
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:]+)\]|([A-Za-z0-9.]+))(?::[0-9]{1,5})?", host)
    if found is None:
        return False
    name = found[1] or found[2]
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class _Sender:
    """Send messages with the headers of every answer; note whether the answer has started."""

    def __init__(self, send: Send):
        self.send = send
        self.has_started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_started = True
            extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message["headers"], *extra]}
        await self.send(message)


def _refuse(status: int, text: str, **headers: Any) -> Response:
    """Return an error, and end the connection: what follows on it cannot be trusted."""
    return PlainTextResponse(f"{text}\n", status, {"Connection": "close", **headers})


def _forbidden() -> Response:
    return _refuse(403, "open the address that remuda watch printed: it contains a token")
