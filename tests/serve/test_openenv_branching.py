"""Methods that fork, save, load and undo sessions exist only on a server with `branching`, and are no tools."""

import asyncio
from typing import Any

import pytest

from jaxgym.serve.openenv.branching import UNDO_TURNS
from jaxgym.serve.openenv.rpc import METHOD_NOT_FOUND, Methods
from jaxgym.serve.openenv.sessions import SPARE, ClientSessions
from jaxgym.serve.web import http
from jaxgym.serve.web.serving import OpenEnv
from tests.serve import corridor

ROOM = 4


@pytest.fixture(scope="module")
def hosted() -> http.Hosted:
    corridor.register()
    return http.host(OpenEnv("corridor", max_sessions=ROOM), {"rewards": "environment"}, SPARE, UNDO_TURNS)


class Client:
    """Calls of JSON-RPC without a socket."""

    def __init__(self, hosted: http.Hosted, **settings: Any) -> None:
        self.methods = Methods(ClientSessions(hosted, ROOM, 0), **settings)

    def answer(self, method: str, **params: Any) -> dict[str, Any]:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return asyncio.run(self.methods.answer(call, None))

    def call(self, method: str, **params: Any) -> Any:
        return self.answer(method, **params)["result"]

    def use(self, session_id: str, tool: str, **given: Any) -> Any:
        used = self.call("tools/call", session_id=session_id, name=tool, arguments=given)["structured_content"]
        return {name: part for name, part in used["observation"].items() if name != "messages"}, used["reward"]

    def started(self) -> str:
        session_id = self.call("openenv/session/create")["session_id"]
        self.use(session_id, "begin", seed=3)
        self.use(session_id, "reply", message="<right>")
        return session_id


def test_a_copy_has_the_same_future_and_the_session_does_not_change(hosted: http.Hosted) -> None:
    client = Client(hosted, branching=True)
    trunk = client.started()
    copies = client.call("jaxgym/session/fork", session_id=trunk, n=2)["session_ids"]
    assert len({trunk, *copies}) == 3
    futures = [[client.use(each, "reply", message="<right>") for _ in range(2)] for each in (*copies, trunk)]
    assert futures[0] == futures[1] == futures[2]
    assert futures[0][1][0]["info"]["turn"] == 3


def test_undo_takes_turns_back_and_a_save_opens_again(hosted: http.Hosted) -> None:
    client = Client(hosted, branching=True)
    trunk = client.started()
    data = client.call("jaxgym/session/save", session_id=trunk)["data"]
    after = client.use(trunk, "reply", message="<right>")
    undone = client.call("jaxgym/session/undo", session_id=trunk)
    assert undone["turn"] == 1
    (loaded,) = client.call("jaxgym/session/load", data=data)["session_ids"]
    assert client.use(trunk, "reply", message="<right>") == client.use(loaded, "reply", message="<right>") == after
    foreign = Client(hosted, branching=True).answer("jaxgym/session/load", data=data)["error"]["message"]
    assert "expected a valid signature" in foreign


def test_a_full_server_and_invalid_arguments_are_errors(hosted: http.Hosted) -> None:
    client = Client(hosted, branching=True)
    trunk = client.started()
    for method, params, message in (
        ("fork", {"session_id": trunk, "n": ROOM}, "expected at most 4 open sessions"),
        ("fork", {"session_id": trunk, "n": 0}, "n: expected an integer"),
        ("fork", {"session_id": trunk, "reseed": 1}, "reseed: expected true or false"),
        ("fork", {}, "session_id: expected the id"),
        ("undo", {"session_id": trunk, "turns": 5}, "turns: expected at most 1"),
        ("undo", {"session_id": "unknown"}, "Unknown session_id"),
        ("load", {"data": "?"}, "data: expected base64"),
        ("load", {"data": 3}, "data: expected the string"),
    ):
        assert message in client.answer(f"jaxgym/session/{method}", **params)["error"]["message"]
    assert len(client.call("jaxgym/session/fork", session_id=trunk, n=ROOM - 1)["session_ids"]) == ROOM - 1


def test_without_the_flag_there_are_no_such_methods_and_with_it_no_such_tools(hosted: http.Hosted) -> None:
    plain, branching = Client(hosted), Client(hosted, branching=True)
    assert not OpenEnv("corridor").branching
    for name in ("fork", "save", "load", "undo"):
        error = plain.answer(f"jaxgym/session/{name}", session_id=plain.started() if name == "fork" else "")["error"]
        assert error["code"] == METHOD_NOT_FOUND
    assert plain.call("tools/list") == branching.call("tools/list")
