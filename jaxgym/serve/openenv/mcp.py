"""What `POST /mcp` answers: calls of OpenEnv, and clients of the Model Context Protocol over its streamable HTTP.

A client of that protocol is welcomed by `initialize`, and has a session from then on, which the header `Mcp-Session-Id`
names in all that it sends. Without that header a call is one of OpenEnv: it names its session in its parameters, or has
one of its own.
"""

import time
from collections.abc import Awaitable, Callable
from importlib import metadata
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jaxgym.serve.errors import CapacityError
from jaxgym.serve.openenv import frames
from jaxgym.serve.openenv.frames import RpcError
from jaxgym.serve.openenv.plays import BEGIN, Play, Plays
from jaxgym.serve.web.answers import answer

SESSION = "mcp-session-id"
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Versions of the protocol, the newest first."""

_TAKEN, _EMPTY, _UNNAMED, _GONE = 202, 204, 400, 404


async def respond(request: Request, plays_of: Callable[[], Awaitable[Plays]]) -> Response:
    """Answers a request to `/mcp`: a POST with a call or a notification, or a DELETE that ends a session.

    Args:
        request: The request.
        plays_of: Returns the sessions as soon as there may be some.
    """
    text, plays = await request.body(), await plays_of()
    named = request.headers.get(SESSION)
    play = plays.get(named)
    if named is not None and play is None:
        return answer(frames.rpc_error(None, RpcError(frames.INVALID_REQUEST, "Session not found: initialize")), _GONE)
    if request.method == "DELETE":
        if play is None:
            return answer({"detail": f"the header {SESSION} says which session ends."}, _UNNAMED)
        if play.hang_up is None:
            plays.close(play)
        play.is_ending = True
        return Response(status_code=_EMPTY)
    given = _read(text)
    method = given.get("method")
    if play is None:
        return _welcome(given, plays) if method == "initialize" else answer(await plays.rpc_text(text, None))
    play.used = time.monotonic()
    if "id" not in given and isinstance(method, str):
        return Response(status_code=_TAKEN)
    if method == "ping":
        return answer(frames.rpc_result(given["id"], {}))
    return answer(await _called(given, method, text, plays, play))


def _read(text: bytes) -> dict[str, Any]:
    """Returns a call, or an empty one where it can't be read: whoever answers it says why."""
    try:
        given = frames.loads(text)
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}


def _welcome(given: dict[str, Any], plays: Plays) -> Response:
    call_id = given.get("id")
    try:
        call_id, _, params = frames.call_of(given)
        play = plays.open()
    except RpcError as error:
        return answer(frames.rpc_error(call_id, error))
    except CapacityError as error:
        return answer(frames.rpc_error(call_id, RpcError(frames.SERVER_ERROR, str(error))))
    asked, hosted = params.get("protocolVersion"), plays.hosted
    result = {
        "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": f"jaxgym {hosted.short_name}", "version": metadata.version("jaxgym")},
        "instructions": f"{hosted.instructions}\n\nThe tool {BEGIN} starts an episode; the others make its moves.",
    }
    response = answer(frames.rpc_result(call_id, result))
    response.headers[SESSION] = play.id
    return response


async def _called(given: dict[str, Any], method: Any, text: bytes, plays: Plays, play: Play) -> dict[str, Any]:
    said = await plays.rpc_text(text, play)
    if method != "tools/call":
        return said
    if "error" in said and said["error"]["code"] == frames.INVALID_PARAMS:
        # A model that is told what is wrong can do better; an error of the protocol ends many an agent.
        content = [{"type": "text", "text": said["error"]["message"]}]
        return frames.rpc_result(given["id"], {"content": content, "isError": True})
    if "result" in said:
        told = said["result"]
        result = {"content": told["content"], "structuredContent": told["structured_content"]}
        return frames.rpc_result(given["id"], {**result, "isError": told["is_error"]})
    return said
