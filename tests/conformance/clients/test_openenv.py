"""Our OpenEnv server and the client, the validation and the graders of OpenEnv itself; skipped where it is absent."""

import asyncio
import contextlib
import importlib
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import run

pytest.importorskip("openenv.core")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROOM = 80
AT_ONCE = 64
SECONDS = 20
MOVE = {"message": "<action>up</action>"}
WRONG = {"nope": 1}
WALK = [{"message": f"<action>{way}</action>"} for way in ("right", "down", "left", "up") * 30]
FIELDS = {"observation", "reward", "done"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run.served(("openenv", "--env", "frozen_lake", "--max-sessions", str(ROOM))) as url:
        yield url


def client_of(url: str) -> Any:
    client = importlib.import_module("openenv.core.generic_client").GenericEnvClient
    return client(base_url=url, message_timeout_s=SECONDS)


def checked(result: Any) -> Any:
    """Return a result of the client, after checks of its form."""
    assert isinstance(result.observation, dict)
    assert not {"reward", "done"} & set(result.observation)
    assert result.reward is None or math.isfinite(result.reward)
    assert type(result.done) is bool
    return result


# Over HTTP.


def test_the_validation_of_openenv_passes(url: str) -> None:
    validate = importlib.import_module("openenv.cli._validation").validate_running_environment
    report = validate(url, timeout_s=SECONDS)
    assert report["passed"], [each["id"] for each in report["criteria"] if not each["passed"]]


def test_the_graders_of_openenv_pass(url: str) -> None:
    basic = pytest.importorskip("openenv.validation.graders.runtime.basic")
    graders, manifests, runtime = (
        importlib.import_module(f"openenv.validation.{name}") for name in ("graders", "manifest", "runtime.collector")
    )
    plan_of = importlib.import_module("openenv.validation.runtime.contracts").RuntimePlan.model_validate
    reset = {"episode_id": "graded", "seed": 7, "options": {}}
    plan = plan_of({"plan_schema_version": "1", "actions": [MOVE] * 3, "reset": reset})
    evidence = runtime.collect_runtime_evidence(url, plan, episode_timeout_s=60)
    assert not evidence.failure_reason
    manifest = manifests.NormalizedManifest.model_validate(
        {
            **{"manifest_schema_version": "1", "name": "conformance", "signature": "openenv.yaml"},
            "reward": {"range": [-1e6, 1e6], "floor_margin": 0.1},
            "resources": {"cpu": 1, "memory_mb": 512, "disk_mb": 512, "episode_timeout_s": 60},
            "capabilities": {"verifier": {"kind": "reward_channel"}},
            "types": {"tags": ["demo"]},
        }
    )
    subject = graders.Subject(Path(), manifest, None, None, Path(), runtime_evidence=evidence)
    kinds = (basic.RewardWellFormedGrader, basic.ObservationSchemaGrader, basic.StateContractGrader)
    results = [kind().run(subject) for kind in kinds]
    assert [result.check_id for result in results if result.status.value != "pass"] == []


def test_the_schemas_have_properties_and_one_required_field(url: str) -> None:
    requests = importlib.import_module("requests")
    schemas = requests.get(f"{url}/schema", timeout=SECONDS).json()
    assert all(schemas[name]["properties"] for name in ("action", "observation", "state"))
    assert schemas["action"]["required"] == ["message"], "verifiers puts a reply of plain text into one field"


def test_calls_over_http_are_answered_and_wrong_ones_are_not_processed(url: str) -> None:
    requests = importlib.import_module("requests")
    calls = (
        ("reset", None, 200),
        ("reset", {"seed": -1}, 422),
        ("step", {"action": MOVE}, 200),
        ("step", {"action": WRONG}, 422),
    )
    for path, body, status in calls:
        answer = requests.post(f"{url}/{path}", json=body, timeout=SECONDS)
        assert answer.status_code == status, (path, body)
        assert status != 200 or set(answer.json()) >= FIELDS
    asked = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
    listed = requests.post(f"{url}/mcp", json=asked, timeout=SECONDS).json()
    assert listed["id"] == 7
    assert listed["result"]["tools"]
    assert requests.get(f"{url}/list_environments", timeout=SECONDS).json()


# The client.


def test_the_synchronous_client_plays(url: str) -> None:
    with client_of(url).sync() as env:
        assert not checked(env.reset()).done
        checked(env.step(MOVE))
        child = env.new_session()
        child.reset()
        child.step(MOVE)
        assert env.state()["step_count"] == 1


def test_the_state_has_the_episode_and_its_steps(url: str) -> None:
    async def play() -> None:
        async with client_of(url) as env:
            await env.reset(episode_id="mine", seed=5)
            for steps in range(3):
                state = await env.state()
                assert (state["episode_id"], state["step_count"]) == ("mine", steps)
                if checked(await env.step(MOVE)).done:
                    break
            await env.reset()
            state = await env.state()
            assert state["step_count"] == 0
            assert state["episode_id"] not in (None, "mine")

    asyncio.run(play())


def test_the_seed_chooses_the_episode_and_unknown_keywords_are_ignored(url: str) -> None:
    async def first(seed: int) -> str:
        async with client_of(url) as env:
            result = await env.reset(seed=seed, no_such_option=3)
            return json.dumps(checked(result).observation, sort_keys=True)

    firsts = [asyncio.run(first(seed)) for seed in (11, 11, 12, 13)]
    assert firsts[0] == firsts[1]
    assert len(set(firsts)) > 1


def test_a_step_before_reset_is_answered(url: str) -> None:
    async def play() -> None:
        async with client_of(url) as env:
            checked(await env.step(MOVE))

    asyncio.run(play())


def test_a_step_after_the_end_pays_nothing_and_a_reset_starts_anew(url: str) -> None:
    async def play() -> None:
        async with client_of(url) as env:
            await env.reset()
            ended = False
            for action in WALK:
                if ended := (await env.step(action)).done:
                    break
            assert ended
            after = await env.step(MOVE)
            assert after.done
            assert not after.reward
            assert not (await env.reset()).done
            checked(await env.step(MOVE))

    asyncio.run(play())


def test_an_action_outside_the_schema_leaves_the_session_alive(url: str) -> None:
    async def play() -> None:
        async with client_of(url) as env:
            await env.reset()
            with pytest.raises(RuntimeError, match="VALIDATION_ERROR"):
                await env.step(WRONG)
            checked(await env.step(MOVE))

    asyncio.run(play())


def test_a_client_may_close_twice_and_connect_again(url: str) -> None:
    async def play() -> None:
        async with client_of(url) as env:
            await env.reset()
            await env.step(MOVE)
            await env.disconnect()
            await env.reset()
            checked(await env.step(MOVE))
            assert (await env.state())["step_count"] == 1
        env = client_of(url)
        await env.connect()
        await env.close()
        await env.close()

    asyncio.run(play())


# Frames.


@contextlib.asynccontextmanager
async def socket_to(url: str, query: str = "") -> Any:
    """Yield a function that sends a frame and returns the answer."""
    connect = importlib.import_module("websockets.asyncio.client").connect
    async with connect(f"{url.replace('http', 'ws', 1)}/ws{query}", proxy=None, max_size=None) as socket:

        async def ask(frame: Any) -> Any:
            if frame is not None:
                await socket.send(frame if isinstance(frame, str) else json.dumps(frame))
            return json.loads(await asyncio.wait_for(socket.recv(), SECONDS))

        yield ask, socket


def test_frames_have_the_shapes_of_the_protocol_and_close_ends_with_1000(url: str) -> None:
    closed = importlib.import_module("websockets.exceptions").ConnectionClosed

    async def play() -> None:
        async with socket_to(url) as (ask, _):
            first = await ask({"type": "reset", "data": {"seed": 1}})
            assert set(first) == {"type", "data"}
            assert FIELDS <= set(first["data"]) <= {*FIELDS, "metadata"}
            assert (await ask({"type": "step", "data": MOVE}))["type"] == "observation"
            assert {"episode_id", "step_count"} <= set((await ask({"type": "state"}))["data"])
            with pytest.raises(closed) as ended:
                await ask({"type": "close"})
            assert ended.value.rcvd.code == 1000

    asyncio.run(play())


def test_a_wrong_frame_gets_its_error_code_and_the_session_lives(url: str) -> None:
    codes = (
        ("{oops", "INVALID_JSON"),
        ({"type": "dance"}, "UNKNOWN_TYPE"),
        ({}, "UNKNOWN_TYPE"),
        ({"type": "step"}, "VALIDATION_ERROR"),
        ({"type": "reset", "data": None}, "VALIDATION_ERROR"),
        ({"type": "reset", "data": {}, "x": 1}, "VALIDATION_ERROR"),
        ({"type": "step", "data": WRONG}, "VALIDATION_ERROR"),
    )

    async def play() -> None:
        async with socket_to(url) as (ask, _):
            for frame, code in codes:
                answer = await ask(frame)
                assert (answer["type"], answer["data"]["code"]) == ("error", code), frame
                assert isinstance(answer["data"]["message"], str)
            assert (await ask({"type": "reset"}))["type"] == "observation"
        async with socket_to(url, "?session_id=no-such-session") as (ask, _):
            assert (await ask(None))["type"] == "error"

    asyncio.run(play())


def test_frames_that_come_together_are_answered_in_order(url: str) -> None:
    async def play() -> None:
        async with socket_to(url) as (ask, socket):
            for frame in ({"type": "reset"}, {"type": "state"}, {"type": "step", "data": MOVE}, {"type": "state"}):
                await socket.send(json.dumps(frame))
            kinds = [(await ask(None))["type"] for _ in range(4)]
            assert kinds == ["observation", "state", "observation", "state"]

    asyncio.run(play())


# Many sessions.


def test_sessions_at_once_are_isolated(url: str) -> None:
    async def one(number: int) -> None:
        async with client_of(url) as env:
            await env.reset(seed=number // 2, episode_id=f"s{number}")
            steps, has_ended = 0, False
            while steps <= number % 5 and not has_ended:
                has_ended = (await env.step(MOVE)).done
                steps += 1
            state = await env.state()
            assert (state["episode_id"], state["step_count"]) == (f"s{number}", steps)

    async def play() -> None:
        await asyncio.gather(*map(one, range(AT_ONCE)))

    asyncio.run(play())


async def fill(url: str, count: int) -> list[Any]:
    """Open sessions."""
    envs = []
    for _ in range(count):
        env = client_of(url)
        await env.connect()
        await env.reset()
        envs.append(env)
    return envs


async def fill_again(url: str) -> list[Any]:
    """Open one session as soon as there is room."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return await fill(url, 1)
        except (RuntimeError, ConnectionError):
            assert time.monotonic() < deadline, "a closed session still takes its place"
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("is_cut", [False, True], ids=["closed", "cut off"])
def test_a_full_server_says_so_and_has_room_again(url: str, is_cut: bool) -> None:
    async def play() -> None:
        await asyncio.sleep(0.5)  # until the sessions of the test before are gone
        envs = await fill(url, ROOM)
        try:
            with pytest.raises((RuntimeError, ConnectionError), match="CAPACITY_REACHED"):
                envs += await fill(url, 1)
            if is_cut:
                envs[-1]._ws.transport.abort()  # without a closing frame
            else:
                await envs.pop().close()
            envs += await fill_again(url)
        finally:
            await asyncio.gather(*(env.close() for env in envs), return_exceptions=True)

    asyncio.run(play())
