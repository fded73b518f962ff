"""`/mcp` over HTTP: calls of OpenEnv, and the Model Context Protocol (MCP) over streamable HTTP.

`initialize` opens a session for an MCP client; every further request names it in the header `Mcp-Session-Id`. A call
without that header is a call of OpenEnv: its parameters name a session, or it gets a temporary one.
"""

import time
from importlib import metadata
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jaxgym.serve.errors import CapacityError
from jaxgym.serve.openenv import rpc
from jaxgym.serve.openenv.rpc import Methods, RpcError
from jaxgym.serve.openenv.session import ClientSession
from jaxgym.serve.openenv.sessions import ClientSessions
from jaxgym.serve.web.answers import answer
from jaxgym.serve.web.parsing import quoted, read_json

SESSION, VERSION = "mcp-session-id", "mcp-protocol-version"
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Supported versions of the protocol, the newest first."""

_BATCHES = "2025-03-26"  # the only version with batches of messages
_MOST_IN_BATCH = 10
_TAKEN, _EMPTY, _BAD, _GONE, _NOT_ALLOWED, _FULL = 202, 204, 400, 404, 405, 503
_CALL, _NOTE = "call", "note"


async def respond(request: Request, sessions: ClientSessions, methods: Methods) -> Response:
    """Answer a request to `/mcp`: a POST with messages, or a DELETE that ends a session."""
    version, named = request.headers.get(VERSION), request.headers.get(SESSION)
    text = await request.body()
    if version is not None and version not in VERSIONS:
        return _rejected(f"unsupported {VERSION} {quoted(version)}; send one of {', '.join(VERSIONS)}.")
    session = sessions.get(named)
    if named is not None and (session is None or session.is_ending):
        return _rejected("Session not found. Send initialize to open another one.", _GONE)
    if request.method in ("GET", "HEAD"):
        reason = {"detail": "expected POST, got GET. This server opens no streams."}
        return answer(reason, _NOT_ALLOWED, {"Allow": "POST, DELETE"})
    if request.method == "DELETE":
        if session is None:
            return answer({"detail": f"expected the header {SESSION}, got none."}, _BAD)
        if session.hang_up is None:
            sessions.close(session)
        session.is_ending = True
        return Response(status_code=_EMPTY)
    try:
        given = read_json(text.decode())
    except ValueError as error:
        return _rejected(f"Parse error: expected JSON in UTF-8. {error}", code=rpc.PARSE_ERROR)
    if session is not None:
        session.used = time.monotonic()
        return await _answered(given, methods, session)
    kind = _kind(given)
    if kind == _CALL and given["method"] == "initialize":
        return _welcome(given, sessions, methods)
    if kind == _CALL and given["method"] == "ping":
        return answer(rpc.rpc_result(given["id"], {}))
    if version is not None:
        return _rejected(
            f"expected initialize, or the header {SESSION} of its response, from a client of version {version}."
        )
    if kind == _NOTE and str(given.get("method")).startswith("notifications/"):
        return Response(status_code=_TAKEN)
    reply = await methods.answer(given, None)  # a call of OpenEnv
    is_message = "error" not in reply or reply["error"]["code"] != rpc.INVALID_REQUEST
    # `openenv validate` sends an empty object, and expects status 200.
    return answer(reply, 200 if is_message or given == {} else _BAD)


async def _answered(given: Any, methods: Methods, session: ClientSession) -> Response:
    """Answer the messages of a session."""
    is_batch = isinstance(given, list)
    if is_batch and session.version != _BATCHES:
        return _rejected(f"expected one message, got a batch. Only version {_BATCHES} of the protocol has batches.")
    messages: list[Any] = given if is_batch else [given]
    if not 1 <= len(messages) <= _MOST_IN_BATCH:
        return _rejected(f"expected 1 to {_MOST_IN_BATCH} messages in a batch, got {len(messages)}. Send more batches.")
    kinds = [_kind(message) for message in messages]
    if None in kinds:
        wanted = f"a request, a notification or a response of JSON-RPC 2.0. The id is {rpc.ALLOWED_ID}"
        return _rejected(f"expected {wanted}; null and fractions are not allowed in MCP.")
    calls = [message for message, kind in zip(messages, kinds, strict=True) if kind == _CALL]
    if not calls:
        return Response(status_code=_TAKEN)
    answers = [await _called(call, methods, session) for call in calls]
    return answer(answers if is_batch else answers[0])


def _kind(given: Any) -> str | None:
    """Return the kind of a message: a call needs a response, a note (also a response) does not; None if malformed."""
    if not isinstance(given, dict) or given.get("jsonrpc") != "2.0":
        return None
    has_id = type(given.get("id")) in (str, int) and rpc.id_of(given) is not None
    if "method" in given:
        if not isinstance(given["method"], str) or ("id" in given and not has_id):
            return None
        return _CALL if has_id else _NOTE
    is_error = isinstance(given.get("error"), dict) and given.get("id") is None  # of a request that could not be read
    return _NOTE if is_error or (has_id and ("result" in given or "error" in given)) else None


def _rejected(reason: str, status: int = _BAD, code: int = rpc.INVALID_REQUEST) -> Response:
    return answer(rpc.rpc_error(None, RpcError(code, reason)), status)


def _welcome(given: dict[str, Any], sessions: ClientSessions, methods: Methods) -> Response:
    params = {} if given.get("params") is None else given["params"]
    if not isinstance(params, dict):
        return answer(rpc.rpc_error(given["id"], RpcError(rpc.INVALID_PARAMS, "Params must be an object")))
    try:
        session = sessions.open()
    except CapacityError as error:
        return answer(rpc.rpc_error(given["id"], RpcError(rpc.SERVER_ERROR, str(error), sessions.room)), _FULL)
    asked = params.get("protocolVersion")
    session.version = asked if asked in VERSIONS else VERSIONS[0]
    result = {
        "protocolVersion": session.version,
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": f"jaxgym {sessions.hosted.short_name}", "version": metadata.version("jaxgym")},
        "instructions": f"{methods.prompt}\n\nTo start an episode, call the tool {rpc.BEGIN}.",
    }
    return answer(rpc.rpc_result(given["id"], result), headers={SESSION: session.id})


async def _called(given: dict[str, Any], methods: Methods, session: ClientSession) -> dict[str, Any]:
    if given["method"] == "ping":
        return rpc.rpc_result(given["id"], {})
    said = await methods.answer(given, session)
    if given["method"] != "tools/call":
        return said
    if "error" in said and said["error"]["code"] == rpc.INVALID_PARAMS:
        # A tool result with the error lets the model correct its call; many agents stop at a protocol error.
        content = [{"type": "text", "text": said["error"]["message"]}]
        return rpc.rpc_result(given["id"], {"content": content, "isError": True})
    if "result" in said:
        reply = said["result"]
        result = {"content": reply["content"], "structuredContent": reply["structured_content"]}
        return rpc.rpc_result(given["id"], {**result, "isError": reply["is_error"]})
    return said
