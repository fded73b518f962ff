"""Guard in front of every route of a server: it checks host, origin, token and size of a request."""

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException

from jaxgym.serve.web.answers import answer
from jaxgym.serve.web.hosts import KnownHosts

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_ONCE = (b"host", b"origin", b"authorization", b"content-length")
_BEARER = b"bearer"
_BAD, _UNAUTHORIZED, _FORBIDDEN, _TOO_LONG = 400, 401, 403, 413
_DIGITS = 18  # digits of a length that are read: enough to exceed any limit; Python rejects thousands of digits


class RequestRejected(Exception):
    """Request that the guard rejects.

    Attributes:
        status: Status of the response.
    """

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status = status


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

    def __init__(
        self,
        app: App,
        token: str | None,
        max_bytes: int,
        *,
        has_page: bool = False,
        host: str = "127.0.0.1",
        allowed_hosts: Iterable[str] = (),
    ):
        """Wrap an app.

        Args:
            app: The app behind the guard.
            token: The valid tokens, one on each line; None if requests need no token.
            max_bytes: Maximum length of a body.
            has_page: Whether the app has a page at `/`.
            host: The address that the server is bound to.
            allowed_hosts: Names in `Host` and `Origin` that are allowed in addition to that address and this machine.
        """
        self._app, self._max_bytes, self._has_page = app, max_bytes, has_page
        self._expected = None if token is None else [line.encode() for line in token.split()]
        self._hosts = KnownHosts(host, allowed_hosts)

    def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> Awaitable[None]:
        """Reject a request, or pass it to the app."""
        try:
            self._check_headers(scope)
            self._check_token(scope)
        except RequestRejected as error:
            return _reject(error, scope, receive, send)
        return self._app(scope, self._bounded(receive) if scope["type"] == "http" else receive, send)

    def _check_headers(self, scope: Mapping[str, Any]) -> None:
        """Raise `RequestRejected` unless host, origin and content length of a request are acceptable."""
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in _ONCE:
                if name in headers:
                    raise RequestRejected(_BAD, f"expected one header {name.decode()}, got several. Send it once.")
                headers[name] = value
        host = headers.get(b"host")
        if host is None:
            # HTTP/1.0 has no Host. Only browsers can be tricked into sending a foreign host, and they do not use it.
            if scope["type"] == "websocket" or scope.get("http_version", "1.1") != "1.0":
                raise RequestRejected(_BAD, "expected the header Host, got none. Send the name of this server.")
        elif not self._hosts.has(host, scope):
            reason = "expected this server in the header Host. Use localhost or the bound address, or serve with "
            raise RequestRejected(_FORBIDDEN, reason + "--allowed-host NAME.")
        origin = headers.get(b"origin")
        if origin is not None and not self._hosts.has_page(origin, host, scope):
            raise RequestRejected(
                _FORBIDDEN, "expected a page of this server in the header Origin. Other pages are rejected."
            )
        announced = headers.get(b"content-length", b"")
        if announced.isdigit() and int(announced[:_DIGITS]) > self._max_bytes:
            raise RequestRejected(_TOO_LONG, f"expected at most {self._max_bytes} bytes in a request.")

    def _check_token(self, scope: Mapping[str, Any]) -> None:
        if self._expected is None or scope["path"] == "/health" or (self._has_page and is_page_request(scope)):
            return
        given = token_of_request(scope["headers"])
        # Every token is compared, so that the time does not depend on the token.
        if not any([hmac.compare_digest(given, expected) for expected in self._expected]):
            raise RequestRejected(_UNAUTHORIZED, "expected the token of this server: Authorization: Bearer TOKEN.")

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


async def _reject(error: RequestRejected, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
    response = answer({"error": str(error)}, error.status)
    if error.status == _UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = "Bearer"
    if scope["type"] == "websocket":
        await receive()
    await response(scope, receive, send)  # a WebSocket that is not accepted yet can be answered over HTTP
