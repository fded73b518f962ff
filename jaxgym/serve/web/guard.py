"""Guard in front of every route of a server: it checks host, origin, token and size of a request."""

import functools
import hmac
import re
from collections.abc import Awaitable, Iterable, Mapping
from ipaddress import ip_address
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jaxgym.serve.web.answers import answer
from jaxgym.serve.web.serving import KILOBYTE, Serving, tokens_of

_ONCE = (b"host", b"origin", b"authorization", b"content-length")
_BEARER = b"bearer"
_AUTHORITY = re.compile(rb"(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+))(?::([0-9]*))?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_BAD, _UNAUTHORIZED, _FORBIDDEN, _TOO_LONG = 400, 401, 403, 413
_MOST_NAMES = 16  # clients send the same few
_DIGITS = 18  # digits of a length that are read: enough to exceed any limit; Python rejects thousands of digits


def token_of_request(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the bearer token of a request, empty without one; ignore the case of the scheme (RFC 9110, 11.1)."""
    given = next((value for name, value in headers if name == b"authorization"), b"")
    scheme, _, token = given.partition(b" ")
    return token.strip(b" ") if scheme.lower() == _BEARER else b""


def is_page_request(scope: Mapping[str, Any]) -> bool:
    """Return whether a request is that of a browser for the page `/`."""
    if scope["path"] != "/" or scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


class Guard:
    """App that passes only requests with a known host, no foreign origin, a valid token and a body of limited size.

    `GET /health` needs no token. The page at `/` needs none either, because it contains no session data.
    """

    def __init__(self, app: ASGIApp, serving: Serving):
        """Wrap an app; raises the errors of `tokens_of`."""
        self._app, self._max_bytes, self._has_page = app, serving.max_kilobytes * KILOBYTE, serving.page
        self._expected = tokens_of(serving)
        self._allowed = frozenset(name.lower() for name in serving.allowed_host)
        # A header that is no authority has the empty name, which `--host ""` would allow.
        self._own = (self._allowed | _LOOPBACK | {serving.host.lower()}) - {""}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Reject a request, or pass it to the app."""
        try:
            self._check_headers(scope)
            self._check_token(scope)
        except HTTPException as error:
            return _reject(error, scope, receive, send)
        return self._app(scope, self._bounded(receive) if scope["type"] == "http" else receive, send)

    def _check_headers(self, scope: Mapping[str, Any]) -> None:
        """Raise `HTTPException` unless host, origin and content length of a request are acceptable."""
        headers = dict(scope["headers"])
        if len(headers) < len(scope["headers"]):
            names = [name for name, _ in scope["headers"]]
            twice = next((name for name in _ONCE if names.count(name) > 1), None)
            if twice is not None:
                raise HTTPException(_BAD, f"expected one header {twice.decode()}, got several. Send it once.")
        host = headers.get(b"host")
        if host is None:
            # HTTP/1.0 has no Host. Only browsers can be tricked into sending a foreign host, and they do not use it.
            if scope["type"] == "websocket" or scope.get("http_version", "1.1") != "1.0":
                raise HTTPException(_BAD, "expected the header Host, got none. Send the name of this server.")
        elif not self._is_own(host, scope):
            reason = "expected this server in the header Host. Use localhost or the bound address, or serve with "
            raise HTTPException(_FORBIDDEN, reason + "--allowed-host NAME.")
        origin = headers.get(b"origin")
        if origin is not None and not self._is_own_page(origin, host, scope):
            raise HTTPException(
                _FORBIDDEN, "expected a page of this server in the header Origin. Other pages are rejected."
            )
        announced = headers.get(b"content-length", b"")
        if announced.isdigit() and int(announced[:_DIGITS]) > self._max_bytes:
            raise HTTPException(_TOO_LONG, f"expected at most {self._max_bytes} bytes in a request.")

    def _is_own(self, host: bytes, scope: Mapping[str, Any]) -> bool:
        """Return whether `Host` names this server, as a protection against DNS rebinding."""
        name, _ = _name_and_port(host)
        if name in self._own or name.endswith(".localhost"):
            return True
        try:
            address = ip_address(name)
        except ValueError:  # only an IP address is compared below, not a name
            return False
        # With a wildcard address, the address of this connection counts.
        return address.is_loopback or name == (scope.get("server") or ("",))[0]

    def _is_own_page(self, origin: bytes, host: bytes | None, scope: Mapping[str, Any]) -> bool:
        """Return whether `Origin` is a page of this server or of an allowed host."""
        authority = origin.partition(b"://")[2]
        name, port = _name_and_port(authority)
        # Pages of another port of this machine belong to another server, so they are foreign.
        if host is not None and port == _name_and_port(host)[1]:
            return self._is_own(authority, scope)
        return name in self._allowed

    def _check_token(self, scope: Mapping[str, Any]) -> None:
        if self._expected is None or scope["path"] == "/health" or (self._has_page and is_page_request(scope)):
            return
        given = token_of_request(scope["headers"])
        # Every token is compared, so that the time does not depend on the token.
        if not any([hmac.compare_digest(given, expected) for expected in self._expected]):
            reason = "expected the token of this server: Authorization: Bearer TOKEN."
            raise HTTPException(_UNAUTHORIZED, reason, {"WWW-Authenticate": "Bearer"})

    def _bounded(self, receive: Receive) -> Receive:
        length = 0

        async def bounded() -> Message:
            nonlocal length
            message = await receive()
            length += len(message.get("body", b""))
            if length > self._max_bytes:
                raise HTTPException(_TOO_LONG, f"expected at most {self._max_bytes} bytes in a request.")
            return message

        return bounded


async def _reject(error: HTTPException, scope: Scope, receive: Receive, send: Send) -> None:
    response = answer({"error": error.detail}, error.status_code, error.headers)
    if scope["type"] == "websocket":
        await receive()
    await response(scope, receive, send)  # a WebSocket that is not accepted yet can be answered over HTTP


@functools.lru_cache(_MOST_NAMES)
def _name_and_port(authority: bytes) -> tuple[str, bytes]:
    """Return the name, in lower case, and the port of `NAME`, `NAME:PORT` or `[ADDRESS]:PORT`; both can be empty."""
    found = _AUTHORITY.fullmatch(authority)
    return ("", b"") if found is None else ((found[1] or found[2]).decode().lower().removesuffix("."), found[3] or b"")
