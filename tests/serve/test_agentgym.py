"""AgentGym's protocol: a server of TextCraft and Frozen Lake on a socket, and its routes on the corridor.

goal 0 of TextCraft: get 1 ash log, craft 4 ash planks using 1 ash log
the corridor from seed 3: ....A..., right three times wins 1, left four times ends in the pit
"""

import asyncio
import contextlib
import http.client
import json
import re
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxgym
from jaxgym import text
from jaxgym.envs.frozen_lake.text import FrozenLakeTextInterface
from jaxgym.envs.textcraft.world import world
from jaxgym.errors import OptionError
from jaxgym.serve.agentgym import wrappers
from jaxgym.serve.agentgym.server import AgentGymApp, load
from jaxgym.serve.pool import SessionPool, UnknownSessionError
from jaxgym.serve.web.api import FieldError, reader_of
from jaxgym.serve.web.guard import Guard
from jaxgym.serve.web.serving import AgentGym
from tests.ids import without_new_ids
from tests.serve import corridor
from tests.serve.running import running

PAGE = Path(__file__).parents[2] / "docs/how_to/agentgym.md"
GAME_PAGE = PAGE.with_name("own_text_interface.md")
SOLUTION = ("get 1 ash log", "craft 4 ash planks using 1 ash log")


@contextlib.contextmanager
def served(env: str, *options: str) -> Iterator[str]:
    """Yield the address of a server."""
    serving = AgentGym(env, options, host="127.0.0.1", port=0, max_sessions=16, idle_seconds=0)
    with running(load(serving), serving) as (port, _):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with served("textcraft", "frozen_lake", "size=5") as base:
        yield base


@pytest.fixture(scope="module")
def textcraft(base: str) -> str:
    return f"{base}/textcraft"


@pytest.fixture(scope="module")
def frozen_lake(base: str) -> str:
    return f"{base}/frozen_lake"


def ask(base: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Return the status and the answer; a body of bytes is sent unchanged."""
    parts = urlsplit(base)
    assert parts.hostname
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, parts.path + path, body if isinstance(body, bytes | None) else json.dumps(body))
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def post(base: str, path: str, **body: Any) -> Any:
    status, answer = ask(base, "POST", path, body)
    assert status == 200, answer
    return answer


def get(base: str, path: str) -> Any:
    status, answer = ask(base, "GET", path)
    assert status == 200, answer
    return answer


# TextCraft, as the platform has it


def test_textcraft_answers_with_the_keys_of_the_platforms_server(textcraft: str) -> None:
    created = post(textcraft, "/create", commands=None, goal=None, minecraft_dir="there")
    number = created["id"]
    assert list(created) == ["id", "observation", "done", "reward"]
    begun = post(textcraft, "/reset", id=number)
    assert begun["observation"] == ("Crafting commands:\ncraft 4 ash planks using 1 ash log\n\nGoal: craft ash planks.")
    assert begun == {"id": number, "observation": begun["observation"], "done": False, "reward": 0}
    made = post(textcraft, "/step", id=number, action=SOLUTION[0])
    assert made == {"observation": "Got 1 ash log", "reward": 0, "done": False}
    assert get(textcraft, f"/observation?id={number}") == "Got 1 ash log"
    assert get(textcraft, f"/detail?id={number}") == {**made, "deleted": False}
    assert get(textcraft, f"/commands?id={number}") == "craft 4 ash planks using 1 ash log"
    assert get(textcraft, f"/goal?id={number}") == "ash planks"
    assert get(textcraft, "/") == "This is environment TextCraft."
    assert post(textcraft, "/close", id=number) is True
    assert post(textcraft, "/close", id=number) is False


def test_after_the_end_a_step_pays_nothing_again(textcraft: str) -> None:
    number = post(textcraft, "/create")["id"]
    post(textcraft, "/reset", id=number, data_idx=0)
    ended = [post(textcraft, "/step", id=number, action=action) for action in (*SOLUTION, SOLUTION[0])][1:]
    assert ended[0] == {"observation": "Crafted 4 ash planks", "reward": 1, "done": True}
    assert ended[1] == {**ended[0], "reward": 0}
    assert post(textcraft, "/reset", id=number, data_idx=0)["done"] is False
    post(textcraft, "/close", id=number)


def test_a_number_of_a_task_is_taken_modulo_the_goals_and_create_starts_that_of_the_id(textcraft: str) -> None:
    created = post(textcraft, "/create")
    number = created["id"]
    first = {
        index: post(textcraft, "/reset", id=number, data_idx=index)["observation"]
        for index in (number, 0, 1, 323, 324, 325, -1, 324 * 10**30)
    }
    assert first[number] == created["observation"]
    assert first[0] == first[324] == first[324 * 10**30]
    assert first[1] == first[325]
    assert first[-1] == first[323]
    assert len(set(first.values())) == len({0, 1, 323, number})
    assert post(textcraft, "/reset", id=number, data_idx=None)["observation"] == first[0]
    post(textcraft, "/close", id=number)


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/step", {"id": 0}, ["body", "action"]),
        ("/step", {"action": "inventory"}, ["body", "id"]),
        ("/step", {"id": "x", "action": "inventory"}, ["body", "id"]),
        ("/step", {"id": True, "action": "inventory"}, ["body", "id"]),
        ("/step", {"id": 0.5, "action": "inventory"}, ["body", "id"]),
        ("/step", {"id": 0, "action": 3}, ["body", "action"]),
        ("/step", [0, "inventory"], ["body"]),
        ("/step", b"oops", ["body"]),
        ("/step", b"\xff", ["body"]),
        ("/step", b"[" * 100_000, ["body"]),
        ("/step", b'{"id": 0, "action": "inventory", "action": "get 1 ash log"}', ["body"]),
        ("/step", b'{"id": 0, "action": "inventory", "more": NaN}', ["body"]),
        ("/step", b'{"id": ' + b"1" * 5000 + b"}", ["body"]),
        ("/create", None, ["body"]),
        ("/create", {"goal": 1}, ["body", "goal"]),
        ("/reset", {"id": 0, "data_idx": "two"}, ["body", "data_idx"]),
        ("/step_batch", {"ids": [0], "actions": [0]}, ["body", "actions", 0]),
        ("/step_batch", {"ids": ["0"], "actions": ["inventory"]}, ["body", "ids", 0]),
    ],
)
def test_a_malformed_body_is_answered_with_422(textcraft: str, path: str, body: Any, where: list[str]) -> None:
    status, answer = ask(textcraft, "POST", path, body)
    assert status == 422
    assert answer["detail"][0]["loc"] == where


def test_an_id_may_be_written_as_a_string_or_a_real_number(textcraft: str) -> None:
    number = post(textcraft, "/create")["id"]
    assert post(textcraft, "/step", id=str(number), action="inventory")["done"] is False
    assert post(textcraft, "/close", id=float(number)) is True
    assert ask(textcraft, "GET", "/observation?id=x")[0] == 422
    assert ask(textcraft, "GET", "/observation")[0] == 422


def test_a_call_for_an_id_that_is_not_known_is_answered_with_an_error(textcraft: str) -> None:
    closed = post(textcraft, "/create")["id"]
    post(textcraft, "/close", id=closed)
    reason = {"error": f"Environment {closed} was closed or belongs to another token. Create another one."}
    assert post(textcraft, "/step", id=closed, action="inventory") == reason
    assert post(textcraft, "/reset", id=closed) == reason
    assert get(textcraft, f"/observation?id={closed}") == reason
    never = "Unknown environment {}. Use an id that /create returned."
    assert len(post(textcraft, "/step", id=10**4000, action="inventory")["error"]) < 120  # cut
    for number in (-1, 10**8):
        assert post(textcraft, "/step", id=number, action="inventory") == {"error": never.format(number)}


def test_an_action_that_utf_8_does_not_hold_is_answered(textcraft: str) -> None:
    number = post(textcraft, "/create")["id"]
    assert post(textcraft, "/step", id=number, action="\ud800")["observation"].startswith("Could not execute")
    post(textcraft, "/close", id=number)


# All other environments, as the guide has them


def test_other_environments_answer_with_the_keys_of_the_guide(frozen_lake: str) -> None:
    status, created = ask(frozen_lake, "POST", "/create", b"anything")
    number = created["id"]
    assert (status, created) == (200, {"id": number})
    opened = get(frozen_lake, f"/observation?id={number}")
    assert opened == post(frozen_lake, "/reset", id=number, data_idx=0)
    assert opened == {"observation": opened["observation"], "reward": 0, "score": 0, "done": False}
    made = post(frozen_lake, "/step", id=number, action="up")
    assert list(made) == ["observation", "reward", "score", "done"]
    assert get(frozen_lake, f"/observation?id={number}") == made
    version = FrozenLakeTextInterface.text_version
    assert get(frozen_lake, f"/detail?id={number}") == {**made, "deleted": False, "text_version": version}
    assert post(frozen_lake, "/render", id=number).startswith("data:image/png;base64,iVBORw0KGgo")
    assert number in get(frozen_lake, "/list_envs")
    assert get(frozen_lake, "/instruction_text").startswith("You are crossing a frozen lake")
    assert post(frozen_lake, "/close", id=number) == {"closed": True}
    again = post(frozen_lake, "/close", id=number)
    assert again["closed"] is False
    assert "was closed" in again["error"]


def test_the_same_data_idx_is_the_same_task(frozen_lake: str) -> None:
    numbers = [post(frozen_lake, "/create")["id"] for _ in range(2)]
    first = [post(frozen_lake, "/reset", id=number, data_idx=5)["observation"] for number in numbers]
    assert first[0] == first[1]
    assert post(frozen_lake, "/reset", id=numbers[0], data_idx=6)["observation"] != first[0]
    rejected = post(frozen_lake, "/reset", id=numbers[0], data_idx=-1)
    assert rejected == {"error": "data_idx: expected an integer from 0 to 4294967295, got -1."}
    for number in numbers:
        post(frozen_lake, "/close", id=number)


def test_a_batch_answers_as_the_calls_one_by_one(frozen_lake: str) -> None:
    numbers = [post(frozen_lake, "/create")["id"] for _ in range(6)]
    ones, batch = numbers[:3], numbers[3:]
    begun = [post(frozen_lake, "/reset", id=number, data_idx=seed) for seed, number in enumerate(ones)]
    assert post(frozen_lake, "/reset_batch", ids=batch, data_idxs=[0, 1, 2]) == begun
    for actions in (["left", "up", "down"], ["right", "nothing", "right"], ["down"] * 3):
        made = [
            post(frozen_lake, "/step", id=number, action=action) for number, action in zip(ones, actions, strict=True)
        ]
        assert post(frozen_lake, "/step_batch", ids=batch, actions=actions) == made
    for number in numbers:
        post(frozen_lake, "/close", id=number)


def test_in_a_batch_an_unknown_id_does_not_keep_the_others(frozen_lake: str) -> None:
    number = post(frozen_lake, "/create")["id"]
    answers = post(frozen_lake, "/step_batch", ids=[10**8, number], actions=["up", "up"])
    assert "Unknown environment" in answers[0]["error"]
    assert answers[1] == get(frozen_lake, f"/observation?id={number}")
    for body in ({"ids": [number, number], "actions": ["up"] * 2}, {"ids": [number], "actions": []}):
        assert "error" in post(frozen_lake, "/step_batch", **body)
    assert post(frozen_lake, "/step_batch", ids=[], actions=[]) == []
    post(frozen_lake, "/close", id=number)


def test_paths_and_methods_are_those_of_the_table(base: str) -> None:
    assert get(base, "/") == "These are the environments /textcraft, /frozen_lake."
    assert get(base, "/frozen_lake/") == "This is environment frozen_lake."
    assert get(base, "/health") == {"status": "healthy"}
    assert ask(base, "GET", "/frozen_lake/step")[0] == 405
    assert ask(base, "POST", "/frozen_lake/leap")[0] == 404
    assert ask(base, "POST", "/create", {})[0] == 404
    assert ask(base, "POST", "/textcraft/step", b" " * (1 << 19))[0] == 413


def test_each_environment_of_a_command_is_followed_by_its_options() -> None:
    serving = AgentGym("textcraft", ("depth=[2]", "frozen_lake", "size=8", "max_turns=5", "sudoku"))
    assert serving.games() == [("textcraft", ["depth=[2]"]), ("frozen_lake", ["size=8", "max_turns=5"]), ("sudoku", [])]


def test_an_environment_is_served_once() -> None:
    with pytest.raises(OptionError, match="got FrozenLake-v0 twice"):
        load(AgentGym("frozen_lake", ("FrozenLake-v0", "size=8")))


def test_a_server_does_not_adapt_the_difficulty() -> None:
    with pytest.raises(OptionError, match="adapt: expected None on a server"):
        load(AgentGym("frozen_lake", ("adapt=size=4:8",)))


def test_the_tasks_of_textcraft_are_those_of_the_depths_that_are_allowed() -> None:
    whole = world()
    tasks = wrappers.textcraft_tasks("textcraft", {"depth": [5, 2], "max_turns": 3})
    depths = whole.depths[np.asarray(tasks.goal)]
    assert sorted(set(depths.tolist())) == [2, 5]
    assert np.all(np.diff(depths) >= 0)
    assert len(depths) == np.isin(whole.depths[whole.goals], [2, 5]).sum()


def test_the_fields_of_a_route_are_the_arguments_of_its_method() -> None:
    async def hint(owner: str | None, id: int, words: list[str], note: str | None = "none") -> None: ...

    read = reader_of(hint)
    assert read is not None
    assert read({"id": 3.0, "words": ["a"], "more": 1}, "body") == {"id": 3, "words": ["a"]}
    assert read({"id": 3, "words": [], "note": None}, "body") == {"id": 3, "words": [], "note": None}
    for given_fields, where in (({"id": 3}, ["words"]), ({"id": None, "words": []}, ["id"])):
        with pytest.raises(FieldError) as failed:
            read(given_fields, "body")
        assert failed.value.errors[0]["loc"] == ["body", *where]


def test_a_field_can_have_any_name() -> None:
    async def odd(owner: str | None, body: str, _x: int, model_config: int = 1) -> None: ...

    read = reader_of(odd)
    assert read is not None
    given: dict[str, Any] = {"body": "a", "_x": 2, "model_config": 3}
    assert read(given, "body") == given


@pytest.mark.parametrize("number", ["1_0", "1.0", " 1", "+1", "", True, "one", None])
def test_an_integer_field_takes_integers_and_strings_of_digits_only(number: Any) -> None:
    async def call(owner: str | None, id: int) -> None: ...

    read = reader_of(call)
    assert read is not None
    assert [read({"id": given}, "query") for given in ("10", "-1", 3)] == [{"id": 10}, {"id": -1}, {"id": 3}]
    with pytest.raises(FieldError, match=r"query\.id: Input should be a valid integer"):
        read({"id": number}, "query")


def test_an_environment_of_textcraft_is_found_only_after_its_task_has_started() -> None:
    wrapper = wrappers.wrap("textcraft", SessionPool(2))
    wrapper.prepare()

    async def race() -> tuple[Any, Any, Any]:
        created = asyncio.ensure_future(wrapper.create(None))
        early = None
        while not created.done():
            with contextlib.suppress(UnknownSessionError):
                early = await wrapper.detail(None, 0)
            await asyncio.sleep(0)
        return early, created.result(), await wrapper.detail(None, 0)

    early, created, late = asyncio.run(race())
    assert early in (None, late)
    assert created["observation"] == late["observation"]


# The corridor, without a socket


@pytest.fixture(scope="module")
def pool() -> SessionPool:
    corridor.register()
    return SessionPool(capacity=2, idle_seconds=0.3)


@pytest.fixture(scope="module")
def own(pool: SessionPool) -> AgentGymApp:
    return AgentGymApp(pool, {"": wrappers.wrap("corridor", pool)}, separates_clients=True)


@pytest.fixture(scope="module")
def app(own: AgentGymApp, tmp_path_factory: pytest.TempPathFactory) -> Guard:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text("anne\nbob\n")
    return Guard(own, AgentGym(env="corridor", token_file=tokens))


def call(app: Guard, method: str, path: str, token: str = "anne", **body: Any) -> tuple[int, Any]:
    async def request() -> tuple[int, Any]:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        path_only, _, query = path.partition("?")
        headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]
        scope = {
            "type": "http",
            "method": method,
            "path": path_only,
            "query_string": query.encode(),
            "headers": headers,
        }
        await app(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    return asyncio.run(request())


def test_data_idx_is_a_level_seed_and_the_score_adds_up_the_rewards(app: Guard) -> None:
    number = call(app, "POST", "/create")[1]["id"]
    assert call(app, "POST", "/reset", id=number, data_idx=3)[1]["observation"] == "....A..."
    answers = [
        call(app, "POST", "/step", id=number, action=f"<{way}>")[1] for way in ("left", "right right", "right right")
    ]
    assert [answer["reward"] for answer in answers] == [0, 0, 1]
    assert [answer["score"] for answer in answers] == [0, 0, 1]
    again = call(app, "POST", "/step", id=number, action="<left>")[1]
    assert again == {**answers[-1], "reward": 0}
    assert again["done"] is True
    call(app, "POST", "/close", id=number)


def test_an_environment_is_known_to_the_token_that_created_it_alone(app: Guard) -> None:
    number = call(app, "POST", "/create")[1]["id"]
    for method, path, body in (
        ("POST", "/step", {"id": number, "action": "<left>"}),
        ("POST", "/reset", {"id": number, "data_idx": 1}),
        ("GET", f"/observation?id={number}", {}),
        ("GET", f"/detail?id={number}", {}),
        ("POST", "/close", {"id": number}),
    ):
        assert "another token" in call(app, method, path, token="bob", **body)[1]["error"], path
    assert (
        "another token"
        in call(app, "POST", "/step_batch", token="bob", ids=[number], actions=["<left>"])[1][0]["error"]
    )
    assert call(app, "GET", "/list_envs", token="bob") == (200, [])
    assert call(app, "GET", "/list_envs") == (200, [number])
    assert call(app, "GET", "/list_envs", token="eve")[0] == 401
    assert call(app, "POST", "/close", id=number) == (200, {"closed": True})


def test_a_full_server_says_so_and_idle_environments_make_room(app: Guard, pool: SessionPool) -> None:
    numbers = [call(app, "POST", "/create")[1]["id"] for _ in range(2)]
    status, answer = call(app, "POST", "/create")
    assert status == 503
    assert "at most 2 open sessions" in answer["error"]
    time.sleep(0.4)
    fresh = call(app, "POST", "/create")[1]["id"]
    assert len(pool) == 1
    for number in numbers:
        assert "was idle for 0.3 s" in call(app, "POST", "/step", id=number, action="<left>")[1]["error"]
    assert call(app, "GET", "/list_envs") == (200, [fresh])
    call(app, "POST", "/close", id=fresh)


def test_a_faulty_parser_fails_its_own_environment_only() -> None:
    class Faulty(corridor.CorridorTextInterface):
        def parse(self, reply: str) -> Any:
            return None if reply == "faulty" else super().parse(reply)

    with without_new_ids():
        spec = text.TextSpec(lambda env, _: Faulty(env.env_id, shouts=False))
        jaxgym.register("Faulty-v0", jaxgym.Spec(corridor.Corridor, corridor.Params, text=spec))
        pool = SessionPool(capacity=2)
        app = AgentGymApp(pool, {"": wrappers.wrap("faulty", pool)})

        def play(path: str, **body: Any) -> Any:
            return asyncio.run(app.answer("POST", path, b"", json.dumps(body).encode(), None))[1]

        for _ in range(2):
            play("/create")
        failed, made = play("/step_batch", ids=[1, 0], actions=["faulty", "<stay>"])
        assert failed == play("/step", id=1, action="faulty")
        assert failed["error"].startswith("Faulty-v0: parse('faulty'): expected a ParsedAction or an InvalidReply")
        assert made["observation"].startswith("1: ")
        assert play("/step", id=1, action="<stay>")["observation"].startswith("1: ")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["<left>", "0", 0, 1]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
BODIES = VALUES | st.dictionaries(st.sampled_from(["id", "action", "data_idx", "ids", "actions", "data_idxs"]), VALUES)
PATHS = ["/step", "/reset", "/close", "/step_batch", "/reset_batch"]


@settings(max_examples=50, deadline=None)
@given(path=st.sampled_from(PATHS), body=BODIES)
def test_any_body_has_an_answer(own: AgentGymApp, path: str, body: Any) -> None:
    status, answer = asyncio.run(own.answer("POST", path, b"", json.dumps(body).encode(), "anne"))
    assert status in (200, 422)
    json.dumps(answer, allow_nan=False)


# The page


def blocks_of(page: Path) -> list[str]:
    return re.findall(r"^```py\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def test_the_calls_on_the_page_play_a_task(capsys: pytest.CaptureFixture[str]) -> None:
    code = next(block for block in blocks_of(PAGE) if "import httpx" in block)
    with served("textcraft") as base:
        assert code.count('"http://localhost:36001"') == 1
        exec(compile(code.replace("http://localhost:36001", base), PAGE.name, "exec"), {})
    received = capsys.readouterr().out.splitlines()
    assert received[-2:] == ["Got 1 ash log 0.0 False", "Crafted 4 ash planks 1.0 True"]


def test_the_server_on_the_page_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrappers, "_wrappers", dict(wrappers._wrappers))
    prizes: dict[int, str] = {}
    with without_new_ids(), contextlib.ExitStack() as stack:
        module = types.ModuleType("doors")
        monkeypatch.setitem(sys.modules, "doors", module)
        exec(compile(blocks_of(GAME_PAGE)[0], GAME_PAGE.name, "exec"), module.__dict__)
        exec(compile(blocks_of(PAGE)[-1], PAGE.name, "exec"), {"__name__": "agentgym_doors"})
        base = stack.enter_context(served("doors"))
        number = post(base, "/create")["id"]
        for data_idx in (0, 100, 1):
            for door in ("1", "2", "3"):
                assert post(base, "/reset", id=number, data_idx=data_idx)["observation"] == "All doors are closed."
                opened = post(base, "/step", id=number, action=door)
                if opened["reward"]:
                    assert opened["observation"] == f"You opened door {door}."
                    assert data_idx not in prizes
                    prizes[data_idx] = door
    assert list(prizes) == [0, 100, 1]
    assert prizes[0] == prizes[100]
