"""The page itself, one HTML file, and the headers that keep it from loading or running anything else."""

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from importlib import resources
from typing import Any

from starlette.responses import Response

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)

SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of all that the page consists of."""


class Document:
    """The app that answers browsers at `/`; it knows no session and needs no token."""

    def __init__(self, needs_token: bool):
        """Reads the page.

        Args:
            needs_token: Whether the page has to ask for a token before it calls.
        """
        page = resources.files("jaxgym.serve.page").joinpath("page.html").read_text("utf-8")
        page = page.replace('data-token="no"', 'data-token="yes"') if needs_token else page
        self._response = Response(page, media_type="text/html", headers={**SAFE, **_policy(page)})

    @staticmethod
    def is_asked_for(scope: Mapping[str, Any]) -> bool:
        """Whether a request comes from a browser that wants to show `/`."""
        if scope["path"] != "/" or scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return False
        return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Answers with the page."""
        await self._response(scope, receive, send)


def _policy(page: str) -> dict[str, str]:
    """Returns the policy under which no other script or style counts, and no other server is asked."""
    digests: dict[str, list[str]] = {"script": [], "style": []}
    for kind, content in _INLINE.findall(page):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        digests[kind].append(f"'sha256-{digest}'")
    allowed = {
        "default-src": "'none'",
        "script-src": " ".join(digests["script"]),
        "style-src": " ".join(digests["style"]),
        "img-src": "blob: data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return {"Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in allowed.items())}
