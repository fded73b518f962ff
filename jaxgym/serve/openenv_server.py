"""A server that speaks OpenEnv: one game in words, a session for each WebSocket."""

import socket

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jaxgym.serve.command import Serving
from jaxgym.serve.http import Loading, answer, hosting, run


async def _health(_: Request) -> Response:
    return answer({"status": "healthy"})


def serve(serving: Serving, listener: socket.socket) -> None:
    """Answers on a socket until the process is asked to end; see `jaxgym.serve.http.run`."""
    loading = Loading(hosting(serving))
    run(Starlette(routes=[Route("/health", _health)]), serving, listener, loading)
