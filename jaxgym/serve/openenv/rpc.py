"""JSON-RPC of an OpenEnv server: its methods, and the tools of an environment, which are those of TRL.

`/mcp` over HTTP takes calls of OpenEnv, and the Model Context Protocol (MCP) over streamable HTTP: `initialize` opens a
session for an MCP client; every further request names it in the header `Mcp-Session-Id`. A call without that header is
a call of OpenEnv: its parameters name a session, or it gets a temporary one.

>>> tool = tools_of("frozen_lake")["move"]
>>> tool.schema["properties"]["direction"]["enum"], tool.reply({"direction": "up"})
(['up', 'down', 'left', 'right'], '<action>up</action>')
"""

import functools
import inspect
import json
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from jaxgym.serve import arguments, trl
from jaxgym.serve.errors import CapacityError, SessionError
from jaxgym.serve.openenv.branching import BranchingMethods
from jaxgym.serve.openenv.sessions import HIGHEST_SEED, ClientSession, ClientSessions, ResetOptions
from jaxgym.serve.web.answers import answer, message_of, quoted, read_json
from jaxgym.serve.web.api import FieldError, checked
from jaxgym.text import InvalidReply

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR, SERVER_ERROR = -32602, -32603, -32000
LONGEST_CALL_ID = 128
"""Maximum number of characters or digits of the id of a call; the response of at most 4 kB repeats it."""

ALLOWED_ID = f"a string of at most {LONGEST_CALL_ID} characters or an integer of at most as many digits"

BEGIN, REPLY = "begin", "reply"
"""Tool that starts an episode, and tool that takes any reply; the other tools are those of the environment."""

_BEGIN = {
    "name": BEGIN,
    "description": "Start the next episode; returns the rules and the first observation.",
    "inputSchema": {
        "type": "object",
        "properties": {"seed": {"type": "integer", "minimum": 0, "maximum": HIGHEST_SEED}},
        "additionalProperties": False,
    },
}
_MESSAGE = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "The reply."}},
    "required": ["message"],
    "additionalProperties": False,
}
_IN_FORMAT = "Send a reply in the format of the rules."
_IN_PLACE = "Send a reply as text, in place of a call of another tool."


class RpcError(ValueError):
    """Error of a call, with its code of JSON-RPC and, in `more`, details for programs."""

    def __init__(self, code: int, message: str, more: Mapping[str, Any] | None = None):
        super().__init__(message)
        self.code, self.more = code, more


def rpc_result(call_id: Any, result: Any) -> dict[str, Any]:
    """Return the response of a successful call."""
    return {"jsonrpc": "2.0", "id": call_id, "result": result}


def rpc_error(call_id: Any, error: RpcError) -> dict[str, Any]:
    """Return the response of a failed call."""
    more = {} if error.more is None else {"data": dict(error.more)}
    return {"jsonrpc": "2.0", "id": call_id, "error": {"code": error.code, "message": message_of(error), **more}}


def id_of(given: Any) -> str | int | float | None:
    """Return the id of a call for its response, or None if it is missing, invalid or too long."""
    call_id = given.get("id") if isinstance(given, dict) else None
    return call_id if type(call_id) in (str, int, float) and len(str(call_id)) <= LONGEST_CALL_ID else None


class Tool(NamedTuple):
    """Tool for a model, with the JSON schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]
    function: Callable[..., str | InvalidReply]

    def reply(self, given: Any) -> str | InvalidReply:
        """Return the reply of the arguments, or an `InvalidReply` if they are invalid."""
        read = arguments.read(self.name, self.schema, given)
        return InvalidReply(read) if isinstance(read, str) else self.function(**read)

    @property
    def call(self) -> str:
        """Sentence that asks for a call of this tool."""
        return f"Call {arguments.call_text(self.name, self.schema)}."


def tools_of(name: str, options: Mapping[str, Any] | None = None) -> dict[str, Tool]:
    """Return the tools that act in an environment, by name; raises `UnknownIdError` as `text_spec_of` does."""
    functions: dict[str, Any] = trl.replies_of(name, options or {})
    own = {
        tool: Tool(tool, (inspect.getdoc(function) or "").partition("\n")[0], function.schema, function)
        for tool, function in functions.items()
    }
    return {**own, REPLY: Tool(REPLY, _IN_FORMAT, _MESSAGE, lambda message: message)}


class Methods:
    """Methods of JSON-RPC, over WebSocket and HTTP.

    Attributes:
        prompt: System prompt for a model that calls tools: the rules, and the tools in place of the form of a reply.
    """

    def __init__(self, sessions: ClientSessions, *, branching: bool = False):
        """Make the tools of the environment; `branching` adds the methods of `jaxgym.serve.openenv.branching`."""
        self._branching = BranchingMethods(sessions).by_name if branching else {}
        self._sessions, hosted = sessions, sessions.hosted
        self._moves = tools_of(hosted.env_id, hosted.options)
        own, rules = [name for name in self._moves if name != REPLY], hosted.system_prompt
        if own:
            about = f"{_IN_PLACE} {hosted.reply_format}".rstrip()
            self._moves[REPLY] = self._moves[REPLY]._replace(description=about)
            rules = rules.removesuffix(hosted.reply_format).rstrip()
        self.prompt = f"{rules}\n\n{trl.how_to_act({name: self._moves[name].schema for name in own or [REPLY]})}"

    async def answer_text(self, session: ClientSession, text: str) -> str:
        """Answer a call in JSON; see `answer`."""
        try:
            given = read_json(text)
        except ValueError as error:
            return json.dumps(rpc_error(None, RpcError(PARSE_ERROR, f"Parse error: {error}")))
        return json.dumps(await self.answer(given, session))

    async def answer(self, given: Any, session: ClientSession | None) -> dict[str, Any]:
        """Answer a call; its session is that of the WebSocket or of the header, or None."""
        call_id = id_of(given)
        try:
            is_call = isinstance(given, dict) and given.get("jsonrpc") == "2.0" and isinstance(given.get("method"), str)
            if not is_call:
                wanted = '{"jsonrpc": "2.0", "id": ..., "method": "tools/list"}'
                raise RpcError(INVALID_REQUEST, f"Invalid request: expected a call such as {wanted}")
            if call_id is None and given.get("id") is not None:
                got = arguments.quoted(given["id"])
                raise RpcError(INVALID_REQUEST, f"Invalid request: expected {ALLOWED_ID} for id, got {got}")
            params = {} if given.get("params") is None else given["params"]
            if not isinstance(params, dict):
                raise RpcError(INVALID_PARAMS, "Params must be an object")
            return rpc_result(call_id, await self._call(given["method"], params, session))
        except RpcError as error:
            return rpc_error(call_id, error)
        except FieldError as error:
            return rpc_error(call_id, RpcError(INVALID_PARAMS, str(error), {"errors": error.errors}))
        except CapacityError as error:
            return rpc_error(call_id, RpcError(SERVER_ERROR, str(error), self._sessions.room))
        except SessionError as error:
            return rpc_error(call_id, RpcError(INTERNAL_ERROR, str(error)))

    async def _call(self, method: str, params: Mapping[str, Any], session: ClientSession | None) -> Any:
        if method == "openenv/session/create":
            return {"session_id": (session or self._sessions.open()).id}
        if method == "openenv/session/close":
            return self._end(params.get("session_id"), session)
        if method not in ("tools/list", "tools/call", *self._branching):
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {quoted(method)}")
        named = params.get("session_id")
        if session is None and named:
            session = self._known(named)
            session.used = time.monotonic()
        if method in self._branching:
            return self._branching[method](session, params)
        if method == "tools/list":
            moves = [
                {"name": name, "description": tool.description, "inputSchema": tool.schema}
                for name, tool in self._moves.items()
            ]
            return {"tools": [_BEGIN, *moves]}
        if session is None:
            with self._sessions.once() as own:
                return await self._use(own, params)
        return await self._use(session, params)

    def _known(self, session_id: Any) -> ClientSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise RpcError(INVALID_PARAMS, f"Unknown session_id: {quoted(session_id)}")
        return session

    def _end(self, session_id: Any, own: ClientSession | None) -> dict[str, Any]:
        if not session_id:
            raise RpcError(INVALID_PARAMS, "Invalid params - 'session_id' is required")
        session = self._known(session_id)
        if session is own:
            raise RpcError(INVALID_REQUEST, "A session ends with its WebSocket. Close the WebSocket.")
        if session.hang_up is not None:
            session.is_ending = True
            return {"session_id": session.id, "closed": False, "closing": True}
        self._sessions.close(session)
        return {"session_id": session.id, "closed": True}

    async def _use(self, session: ClientSession, params: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool."""
        name, given = params.get("name"), params.get("arguments")
        given = {} if given is None else given
        if not isinstance(name, str):
            got = arguments.quoted(name) if "name" in params else "none"
            raise RpcError(INVALID_PARAMS, f"expected the name of a tool for name, got {got}")
        tool = self._moves.get(name)
        if name != BEGIN and tool is None:
            known = ", ".join([BEGIN, *self._moves])
            raise RpcError(INVALID_PARAMS, f"Tool not found: {quoted(name)}. Use one of {known}.")
        if tool is None:
            start = arguments.read(BEGIN, _BEGIN["inputSchema"], given)
            if isinstance(start, str):
                raise RpcError(INVALID_PARAMS, start)
            reply, answered = "", await session.reset(checked(ResetOptions, start))
        else:
            reply = tool.reply(given)
            answered = await session.step(reply)
        observed = json.loads(answered)
        observation = observed["observation"]
        observation["prompt"] = self.prompt
        text = observation["text"] if tool is not None else f"{self.prompt}\n\n{observation['text']}"
        if tool is not None and observation["info"]["invalid_reply"] is not None:
            # Each text asks for a call of the tool in place of the form of a reply.
            ask = functools.partial(trl.with_tool_call, tool_call=tool.call, keeps_form=tool.name == REPLY)
            observation["text"] = text = ask(text)
            observation["messages"][0]["content"] = ask(observation["messages"][0]["content"])
            observation["info"]["invalid_reply"] = ask(observation["info"]["invalid_reply"])
        content = [{"type": "text", "text": text}]
        image = observation.pop("image", None)
        if image is not None:
            content.append({"type": "image", "data": image, "mimeType": "image/png"})
        # Invalid arguments are an invalid reply, and MCP clients also get the error flag.
        is_error = not isinstance(reply, str)
        return {"content": content, "structured_content": observed, "data": text, "is_error": is_error}


SESSION, VERSION = "mcp-session-id", "mcp-protocol-version"
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Supported versions of the protocol, the newest first."""

_BATCHES = "2025-03-26"  # the only version with batches of messages
_MOST_IN_BATCH = 10
_TAKEN, _EMPTY, _BAD, _GONE, _NOT_ALLOWED, _FULL = 202, 204, 400, 404, 405, 503
_CALL, _NOTE = "call", "note"


async def respond_to_mcp(request: Request, body: bytes, sessions: ClientSessions, methods: Methods) -> Response:
    """Answer a request to `/mcp`: a POST with messages, or a DELETE that ends a session."""
    version, named = request.headers.get(VERSION), request.headers.get(SESSION)
    if version is not None and version not in VERSIONS:
        return _rejected(f"unsupported {VERSION} {quoted(version)}; send one of {', '.join(VERSIONS)}.")
    session = sessions.get(named)
    if named is not None and (session is None or session.is_ending):
        return _rejected("Session not found. Send initialize to open another one.", _GONE)
    if request.method not in ("POST", "DELETE"):
        reason = {"detail": f"expected POST, got {request.method}. This server opens no streams."}
        return answer(reason, _NOT_ALLOWED, {"Allow": "POST, DELETE"})
    if request.method == "DELETE":
        if session is None:
            return answer({"detail": f"expected the header {SESSION}, got none."}, _BAD)
        if session.hang_up is None:
            sessions.close(session)
        session.is_ending = True
        return Response(status_code=_EMPTY)
    try:
        given = read_json(body.decode())
    except ValueError as error:
        return _rejected(f"Parse error: expected JSON in UTF-8. {error}", code=PARSE_ERROR)
    if session is not None:
        session.used = time.monotonic()
        return await _answered(given, methods, session)
    kind = _kind(given)
    if kind == _CALL and given["method"] == "initialize":
        return _welcome(given, sessions, methods)
    if kind == _CALL and given["method"] == "ping":
        return answer(rpc_result(given["id"], {}))
    if version is not None:
        return _rejected(
            f"expected initialize, or the header {SESSION} of its response, from a client of version {version}."
        )
    if kind == _NOTE and str(given.get("method")).startswith("notifications/"):
        return Response(status_code=_TAKEN)
    reply = await methods.answer(given, None)  # a call of OpenEnv
    is_message = "error" not in reply or reply["error"]["code"] != INVALID_REQUEST
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
        wanted = f"a request, a notification or a response of JSON-RPC 2.0. The id is {ALLOWED_ID}"
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
    has_id = type(given.get("id")) in (str, int) and id_of(given) is not None
    if "method" in given:
        if not isinstance(given["method"], str) or ("id" in given and not has_id):
            return None
        return _CALL if has_id else _NOTE
    is_error = isinstance(given.get("error"), dict) and given.get("id") is None  # of a request that could not be read
    return _NOTE if is_error or (has_id and ("result" in given or "error" in given)) else None


def _rejected(reason: str, status: int = _BAD, code: int = INVALID_REQUEST) -> Response:
    return answer(rpc_error(None, RpcError(code, reason)), status)


def _welcome(given: dict[str, Any], sessions: ClientSessions, methods: Methods) -> Response:
    params = {} if given.get("params") is None else given["params"]
    if not isinstance(params, dict):
        return answer(rpc_error(given["id"], RpcError(INVALID_PARAMS, "Params must be an object")))
    try:
        session = sessions.open()
    except CapacityError as error:
        return answer(rpc_error(given["id"], RpcError(SERVER_ERROR, str(error), sessions.room)), _FULL)
    asked = params.get("protocolVersion")
    session.version = asked if asked in VERSIONS else VERSIONS[0]
    result = {
        "protocolVersion": session.version,
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": f"jaxgym {sessions.hosted.short_name}", "version": metadata.version("jaxgym")},
        "instructions": f"{methods.prompt}\n\nTo start an episode, call the tool {BEGIN}.",
    }
    return answer(rpc_result(given["id"], result), headers={SESSION: session.id})


async def _called(given: dict[str, Any], methods: Methods, session: ClientSession) -> dict[str, Any]:
    if given["method"] == "ping":
        return rpc_result(given["id"], {})
    said = await methods.answer(given, session)
    if given["method"] != "tools/call":
        return said
    if "error" in said and said["error"]["code"] == INVALID_PARAMS:
        # A tool result with the error lets the model correct its call; many agents stop at a protocol error.
        content = [{"type": "text", "text": said["error"]["message"]}]
        return rpc_result(given["id"], {"content": content, "isError": True})
    if "result" in said:
        reply = said["result"]
        result = {"content": reply["content"], "structuredContent": reply["structured_content"]}
        return rpc_result(given["id"], {**result, "isError": reply["is_error"]})
    return said
