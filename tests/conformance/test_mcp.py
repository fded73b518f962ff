"""The tools of every game at /mcp, called by the clients `mcp` and `fastmcp`; skipped where these are not installed."""

import asyncio
import contextlib
import importlib
from typing import Any

import pytest

from tests.conformance import run
from tests.conformance.experts import expert
from tests.ids import short_names_of_programs

pytest.importorskip("fastmcp")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

SAMPLES = {"integer": 1, "string": "nothing"}


def served(nick: str) -> contextlib.AbstractContextManager[str]:
    return run.served(("openenv", "--env", nick, "--max-sessions", "4"))


def arguments_of(schema: dict[str, Any]) -> dict[str, Any]:
    properties = {name: schema["properties"][name] for name in schema.get("required", ())}
    return {name: about.get("enum", [SAMPLES[about["type"]]])[0] for name, about in properties.items()}


@pytest.mark.parametrize("nick", short_names_of_programs())
def test_fastmcp_lists_and_calls_the_tools_of_every_game(nick: str) -> None:
    client_of = importlib.import_module("fastmcp").Client

    async def play(url: str, reply: str) -> None:
        async with client_of(f"{url}/mcp") as client:
            tools = {tool.name: tool for tool in await client.list_tools()}
            assert {"begin", "reply"} < set(tools)
            begun = await client.call_tool("begin", {"seed": 3})
            assert begun.structured_content["observation"]["info"]["seed"] == 3
            assert begun.content[0].text.startswith(begun.structured_content["observation"]["prompt"])
            assert "<action>" not in begun.content[0].text
            moved = await client.call_tool("reply", {"message": reply})
            assert moved.structured_content["observation"]["info"]["invalid_reply"] is None
            others = [tool for name, tool in tools.items() if name not in ("begin", "reply")]
            for turn, tool in enumerate(others, start=2):
                received = await client.call_tool(tool.name, arguments_of(tool.inputSchema))
                assert received.structured_content["observation"]["info"]["turn"] == turn
                assert received.content[0].text
            wrong = await client.call_tool("reply", {"words": 1}, raise_on_error=False)
            assert wrong.is_error
            assert "words" in wrong.content[0].text

    with served(nick) as url:
        asyncio.run(play(url, expert(nick, 3)()))


def test_the_client_of_mcp_plays_a_whole_episode() -> None:
    session_of = importlib.import_module("mcp").ClientSession
    connect = importlib.import_module("mcp.client.streamable_http").streamable_http_client

    async def play(url: str) -> None:
        say = expert("frozen_lake", 3)
        async with connect(f"{url}/mcp") as (read, write, *_), session_of(read, write) as session:
            welcome = await session.initialize()
            assert welcome.instructions.startswith("You are crossing a frozen lake")
            await session.send_ping()
            assert [tool.name for tool in (await session.list_tools()).tools] == ["begin", "move", "reply"]
            await session.call_tool("begin", {"seed": 3})
            received: dict[str, Any] = {"done": False}
            while not received["done"]:
                way = (await asyncio.to_thread(say)).removeprefix("<action>").removesuffix("</action>")
                received = (await session.call_tool("move", {"direction": way})).structuredContent
            assert received["reward"] == 1.0
            assert received["observation"]["info"]["is_solved"]

    with served("frozen_lake") as url:
        asyncio.run(play(url))
