"""What `POST /mcp` answers: calls of OpenEnv, and clients of the Model Context Protocol over its streamable HTTP.

A client of that protocol is welcomed by `initialize`, and has a session from then on, which the header `Mcp-Session-Id`
names in all that it sends. Without that header a call is one of OpenEnv: it names its session in its parameters, or has
one of its own.
"""

import time
from importlib import metadata
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jaxgym.serve.errors import CapacityError
from jaxgym.serve.openenv import frames
from jaxgym.serve.openenv.frames import RpcError
from jaxgym.serve.openenv.plays import BEGIN, Play, Plays
from jaxgym.serve.web.answers import answer, quoted

SESSION, VERSION = "mcp-session-id", "mcp-protocol-version"
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Versions of the protocol, the newest first."""

_BATCHES = "2025-03-26"  # the one version whose messages may come several at a time
_MOST_IN_BATCH = 10
_TAKEN, _EMPTY, _BAD, _GONE, _NOT_ALLOWED = 202, 204, 400, 404, 405
_CALL, _TOLD = "call", "told"


async def respond(request: Request, plays: Plays) -> Response:
    """Answer a request to `/mcp`: a POST with messages, or a DELETE that ends a session.

    Args:
        request: The request.
        plays: The sessions.
    """
    text = await request.body()
    version, named = request.headers.get(VERSION), request.headers.get(SESSION)
    if version is not None and version not in VERSIONS:
        return _rejected(f"unsupported {VERSION} {quoted(version)}; send one of {', '.join(VERSIONS)}.")
    play = plays.get(named)
    if named is not None and (play is None or play.is_ending):
        return _rejected("Session not found: initialize", _GONE)
    if request.method in ("GET", "HEAD"):
        response = answer({"detail": "this server opens no streams; POST messages."}, _NOT_ALLOWED)
        response.headers["Allow"] = "POST, DELETE"
        return response
    if request.method == "DELETE":
        return _ended(plays, play)
    if play is not None:
        play.used = time.monotonic()
        return await _answered(text, plays, play)
    given = _read(text)
    if _kind(given) == _CALL and given["method"] == "initialize":
        return _welcome(given, plays)
    if _kind(given) == _CALL and given["method"] == "ping":
        return answer(frames.rpc_result(given["id"], {}))
    if version is not None:
        return _rejected(f"a client of version {version} has to initialize, and to send the header {SESSION}.")
    if isinstance(given, dict) and str(given.get("method")).startswith("notifications/") and "id" not in given:
        return Response(status_code=_TAKEN)
    return answer(await plays.rpc_text(text, None))  # of OpenEnv


def _ended(plays: Plays, play: Play | None) -> Response:
    if play is None:
        return answer({"detail": f"the header {SESSION} says which session ends."}, _BAD)
    if play.hang_up is None:
        plays.close(play)
    play.is_ending = True
    return Response(status_code=_EMPTY)


async def _answered(text: bytes, plays: Plays, play: Play) -> Response:
    """Answer the messages that came in a session."""
    given = _read(text)
    if given is None:
        return _rejected("Parse error: expected JSON in UTF-8.", code=frames.PARSE_ERROR)
    messages: list[Any] = given if isinstance(given, list) and play.version == _BATCHES else [given]
    kinds = [_kind(message) for message in messages[: _MOST_IN_BATCH + 1]]
    if not 1 <= len(kinds) <= _MOST_IN_BATCH or None in kinds:
        return _rejected("expected a request, a notification or a response of JSON-RPC 2.0.")
    calls = [message for message, kind in zip(messages, kinds, strict=True) if kind == _CALL]
    if not calls:
        return Response(status_code=_TAKEN)
    answers = [await _called(call, plays, play) for call in calls]
    return answer(answers if isinstance(given, list) else answers[0])


def _read(text: bytes) -> Any:
    """Return what JSON in UTF-8 says; None if it is none."""
    try:
        return frames.loads(text.decode())
    except (ValueError, RecursionError):
        return None


def _kind(given: Any) -> str | None:
    """Return whether a message asks for an answer or tells something; None if it is no message."""
    if not isinstance(given, dict) or given.get("jsonrpc") != "2.0":
        return None
    has_id = type(given.get("id")) in (str, int) and frames.id_of(given) is not None
    if "method" in given:
        if not isinstance(given["method"], str) or ("id" in given and not has_id):
            return None
        return _CALL if has_id else _TOLD
    is_error = isinstance(given.get("error"), dict) and given.get("id") is None  # of a request that could not be read
    return _TOLD if is_error or (has_id and ("result" in given or "error" in given)) else None


def _rejected(reason: str, status: int = _BAD, code: int = frames.INVALID_REQUEST) -> Response:
    return answer(frames.rpc_error(None, RpcError(code, reason)), status)


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
    play.version = result["protocolVersion"]
    response = answer(frames.rpc_result(call_id, result))
    response.headers[SESSION] = play.id
    return response


async def _called(given: dict[str, Any], plays: Plays, play: Play) -> dict[str, Any]:
    if given["method"] == "ping":
        return frames.rpc_result(given["id"], {})
    said = await plays.rpc(given, play)
    if given["method"] != "tools/call":
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
