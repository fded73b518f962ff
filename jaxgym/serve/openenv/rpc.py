"""JSON-RPC of an OpenEnv server: its methods, and the tools of an environment, which are those of TRL.

>>> tool = tools_of("frozen_lake")["move"]
>>> tool.schema["properties"]["direction"]["enum"], tool.reply({"direction": "up"})
(['up', 'down', 'left', 'right'], '<action>up</action>')
"""

import inspect
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxgym.serve import arguments, trl
from jaxgym.serve.errors import CapacityError, SessionError
from jaxgym.serve.openenv.branching import BranchingMethods
from jaxgym.serve.openenv.frames import FrameError
from jaxgym.serve.openenv.session import ClientSession
from jaxgym.serve.openenv.sessions import ClientSessions
from jaxgym.serve.openenv.tasks import HIGHEST_SEED
from jaxgym.serve.web.answers import message_of
from jaxgym.serve.web.parsing import quoted, read_json
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
        except FrameError as error:
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
            is_error, observed = False, json.loads(await session.reset(start))
            observed["observation"]["prompt"] = self.prompt
            text = f"{self.prompt}\n\n{observed['observation']['text']}"
        else:
            reply = tool.reply(given)
            # Invalid arguments are an invalid reply, and MCP clients also get the error flag.
            is_error = not isinstance(reply, str)
            observed = json.loads(await session.step(reply))
            observed["observation"]["prompt"] = self.prompt
            if observed["observation"]["info"]["invalid_reply"] is not None:
                _name_call(observed["observation"], tool)
            text = observed["observation"]["text"]
        content = [{"type": "text", "text": text}]
        image = observed["observation"].pop("image", None)
        if image is not None:
            content.append({"type": "image", "data": image, "mimeType": "image/png"})
        return {"content": content, "structured_content": observed, "data": text, "is_error": is_error}


def _name_call(observation: dict[str, Any], tool: Tool) -> None:
    """Put the call of a tool in place of the form of a reply, in each text of an observation."""
    for texts, key in (
        (observation, "text"),
        (observation["messages"][0], "content"),
        (observation["info"], "invalid_reply"),
    ):
        texts[key] = trl.with_tool_call(texts[key], tool.call, keeps_form=tool.name == REPLY)
