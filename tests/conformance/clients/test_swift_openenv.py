"""Our OpenEnv server and the schedulers of ms-swift that play on one, ours among them; skipped without ms-swift.

    SWIFT_EXAMPLES=/path/to/ms-swift/examples pytest tests/conformance/clients/test_swift_openenv.py

Its example for Sudoku is in no package: SWIFT_EXAMPLES names the folder in a checkout.
"""

import asyncio
import importlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conformance import run
from tests.conformance.clients import policies
from tests.conformance.clients.policies import Policy

pytest.importorskip("swift")
pytest.importorskip("openenv.core")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROOM = 80
PLUGIN = Path(__file__).parents[3] / "examples/ms_swift/jaxgym_plugin.py"
THEIRS = Path(os.environ.get("SWIFT_EXAMPLES") or "nowhere") / "train/grpo/plugin/openenv/sudoku_scheduler.py"
PARTS = {f"{name}_reward" for name in ("empty_cell", "valid_move", "repetition", "progress", "correct")}


class Case(NamedTuple):
    """A policy, the limit of turns, the file that registers the scheduler, and whether it scores Sudoku in parts."""

    make_policy: Callable[[], Policy]
    max_turns: int = 5
    plugin: Path | None = None
    is_sudoku: bool = False


ONES = policies.constant("[1 1 1]")
CASES = {
    "openenv_scheduler": Case(ONES),
    "jaxgym_openenv_scheduler": Case(ONES, plugin=PLUGIN),
    "jaxgym_sudoku_scheduler": Case(policies.Sudoku, 60, PLUGIN, is_sudoku=True),
    "sudoku_scheduler": Case(policies.Sudoku, 60, THEIRS, is_sudoku=True),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run.served(("openenv", "--env", "sudoku", "--max-sessions", str(ROOM))) as url:
        yield url


class Player:
    """A scheduler of ms-swift, with an engine that asks a policy."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self.case, self.url = name, CASES[name], url
        self.stand_ins = importlib.import_module("tests.conformance.clients.stand_ins")
        if self.case.plugin is not None:
            importlib.import_module("swift.utils").import_external_file(str(self.case.plugin))
        importlib.import_module("swift.rollout.openenv_wrapper")._RETRY_DELAY = 0.05

    def scheduler(self, make_policy: Callable[[], Policy] | None = None, max_turns: int = 0) -> Any:
        engine = self.stand_ins.Engine(make_policy or self.case.make_policy)
        kind = importlib.import_module("swift.rollout.multi_turn").multi_turns[self.name]
        made = kind(infer_engine=engine, max_turns=max_turns or self.case.max_turns, use_gym_env=True)
        # With an engine, ms-swift's own scheduler reads None for both names, and then can't start in server mode.
        made.max_concurrent_envs, made.env_config_defaults = 4, {}
        return made

    def request(self) -> Any:
        config = {"name": "openenv", "base_url": self.url, "reset_kwargs": {}}
        if not self.case.is_sudoku:
            config["system_message"] = "You play a game."
        return self.stand_ins.request_of(config)

    def run(self, scheduler: Any) -> Any:
        """Play one trajectory in server mode; return what the rewards get."""

        async def play() -> Any:
            output = await scheduler.run(self.request(), self.stand_ins.ONCE)
            await close_all(scheduler)
            return output

        return self.stand_ins.checked_infos(asyncio.run(play()))


async def close_all(scheduler: Any) -> None:
    for name in list(scheduler._envs):
        await scheduler._close_and_remove(name)


@pytest.fixture(scope="module", params=list(CASES))
def player(request: pytest.FixtureRequest, url: str) -> Player:
    if request.param == "sudoku_scheduler" and not THEIRS.exists():
        pytest.skip("no package index has the examples of ms-swift: set SWIFT_EXAMPLES to that folder of a checkout")
    return Player(request.param, url)


of_sudoku = pytest.mark.parametrize("player", [name for name, case in CASES.items() if case.is_sudoku], indirect=True)


def test_a_trajectory_runs_in_server_mode(player: Player) -> None:
    infos = player.run(player.scheduler())
    assert 1 <= infos["num_turns"] <= player.case.max_turns


def test_trajectories_run_at_once(player: Player) -> None:
    scheduler = player.scheduler()

    async def play() -> list[Any]:
        requests = [player.request() for _ in range(8)]
        outputs = await scheduler.async_infer(requests, player.stand_ins.ONCE, use_tqdm=False)
        await close_all(scheduler)
        return outputs

    outputs = asyncio.run(play())
    assert len([player.stand_ins.checked_infos(output) for output in outputs]) == 8


def test_trajectories_run_in_colocate_mode(player: Player) -> None:
    scheduler = player.scheduler()
    requests = [player.request() for _ in range(8)]
    outputs = player.stand_ins.play_colocated(scheduler, requests, player.case.max_turns)
    assert len([player.stand_ins.checked_infos(output) for output in outputs]) == 8
    asyncio.run(close_all(scheduler))


def test_replies_without_an_action_end_cleanly(player: Player) -> None:
    infos = player.run(player.scheduler(policies.constant("\u2603 no action \u2603")))
    assert infos["num_turns"] <= player.case.max_turns


def free_sessions(url: str) -> int:
    """Return how many sessions the server has room for."""
    client = importlib.import_module("openenv.core.generic_client").GenericEnvClient

    async def count() -> int:
        envs: list[Any] = []
        try:
            while len(envs) < ROOM:
                env = client(base_url=url)
                try:
                    await env.connect()
                    await env.reset()
                except (RuntimeError, ConnectionError):
                    await env.close()
                    break
                envs.append(env)
            return len(envs)
        finally:
            await asyncio.gather(*(env.close() for env in envs), return_exceptions=True)

    time.sleep(0.5)  # until the server has seen the sockets of the calls before close
    return asyncio.run(count())


def test_closed_trajectories_leave_no_session(player: Player) -> None:
    before = free_sessions(player.url)
    scheduler = player.scheduler(max_turns=1)

    async def play() -> None:
        requests = [player.request() for _ in range(4)]
        await scheduler.async_infer(requests, player.stand_ins.ONCE, use_tqdm=False)
        await close_all(scheduler)

    asyncio.run(play())
    assert free_sessions(player.url) == before


@of_sudoku
def test_the_first_observation_of_sudoku_has_board_and_hints(player: Player) -> None:
    scheduler, request = player.scheduler(), player.request()

    async def start() -> None:
        await scheduler.on_trajectory_start([request])
        await close_all(scheduler)

    asyncio.run(start())
    system, user = request.messages
    assert system["role"] == "system"
    assert policies.read_sudoku(user["content"])
    assert "GUARANTEED MOVES" in user["content"] or "Other options" in user["content"]


@of_sudoku
def test_a_solved_sudoku_has_the_full_reward_in_all_parts(player: Player) -> None:
    infos = player.run(player.scheduler(max_turns=81))
    assert set(infos) >= PARTS
    assert infos["gym_done"]
    assert infos["correct_reward"] == 1.0
    repeated = player.run(player.scheduler(ONES, max_turns=4))
    assert repeated["correct_reward"] < 1.0
