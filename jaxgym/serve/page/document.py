"""The page, one HTML file, with headers that forbid other scripts, styles and servers."""

import base64
import hashlib
import re
from importlib import resources

from starlette.responses import Response

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)

SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of the page and of the responses to its calls."""


def document(needs_token: bool) -> Response:
    """Return the page.

    Args:
        needs_token: Whether the page needs a token for its calls.
    """
    page = resources.files("jaxgym.serve.page").joinpath("page.html").read_text("utf-8")
    page = page.replace('data-token="no"', 'data-token="yes"') if needs_token else page
    return Response(page, media_type="text/html", headers={**SAFE, **_policy(page)})


def _policy(page: str) -> dict[str, str]:
    """Return the content security policy that allows no other script, style or server."""
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
