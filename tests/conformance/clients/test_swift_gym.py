"""Our environments in ms-swift itself: its `Env`, its scheduler in both rollout modes, its scoring; skipped without it.

No model and no accelerator: an engine with a scripted policy replaces the model.
"""

import asyncio
import copy
import importlib
import inspect
import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from jaxgym import text
from jaxgym.serve import swift as ours
from tests.conformance.clients import policies
from tests.conformance.clients.policies import Policy

pytest.importorskip("swift")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

PLUGIN = Path(__file__).parents[3] / "examples/ms_swift/jaxgym_plugin.py"
NO_ACTION = "%%% \u2603 no action here %%%"
AT_ONCE = 64


class Case(NamedTuple):
    """A game, a policy for it, and the total reward of that policy where it is known."""

    make_policy: Callable[[], Policy]
    env_config: dict[str, Any]
    max_turns: int = 30
    reward: float | None = None


def lake() -> Policy:
    return policies.frozen_lake


FORWARD = policies.constant("<action>forward</action>")
SHORT = {"command_count": [1], "command_show_duration": [1], "command_show_delay": [0]}
# Classes of `jaxgym.serve.swift`, and one name that the plugin of the examples registers.
CASES = {
    "FrozenLakeEnv": Case(lake, {"size": 4}, reward=1.0),
    "SudokuEnv": Case(policies.Sudoku, {}, max_turns=60),
    "MortarMayhemGridEnv": Case(FORWARD, SHORT),
    "MysteryPathGridEnv": Case(FORWARD, {"max_steps": 16}),
    "plugin": Case(lake, {}, reward=1.0),
}


class Gym:
    """A case, and ms-swift's own parts around it."""

    def __init__(self, name: str) -> None:
        self.case = CASES[name]
        self.envs = importlib.import_module("swift.rollout.gym_env").envs
        self.multi_turn = importlib.import_module("swift.rollout.multi_turn")
        self.stand_ins = importlib.import_module("tests.conformance.clients.stand_ins")
        self.name = "frozen_lake" if name == "plugin" else name
        if name == "plugin":
            importlib.import_module("swift.utils").import_external_file(str(PLUGIN))
        else:
            self.envs[name] = next(made for made in map(ours.env_class, text.text_envs()) if made.__name__ == name)

    def config(self, seed: int) -> dict[str, Any]:
        return {**self.case.env_config, "seed": seed}

    def request(self, seed: int = 0) -> Any:
        return self.stand_ins.request_of(self.config(seed))

    def env(self, seed: int = 0) -> Any:
        return self.envs[self.name](self.config(seed))

    def engine(self, make_policy: Callable[[], Policy] | None = None, delay: float = 0.0) -> Any:
        return self.stand_ins.Engine(make_policy or self.case.make_policy, delay)

    def scheduler(self, engine: Any, max_turns: int = 0, gym_env: str | None = None) -> Any:
        limit = max_turns or self.case.max_turns
        name = self.name if gym_env is None else gym_env
        return self.multi_turn.GYMScheduler(engine, limit, gym_env=name, use_gym_env=True, tokenizer=engine.tokenizer)

    def run(self, request: Any, scheduler: Any) -> Any:
        return asyncio.run(scheduler.run(request, self.stand_ins.ONCE))

    def play(self, seed: int = 0) -> Any:
        return self.run(self.request(seed), self.scheduler(self.engine()))

    def transcript(self, output: Any) -> list[tuple[str, str]]:
        return [(message["role"], self.stand_ins.text_of(message["content"])) for message in output.messages]


@pytest.fixture(scope="module", params=list(CASES))
def gym(request: pytest.FixtureRequest) -> Gym:
    return Gym(request.param)


def summary(output: Any) -> tuple[float, int, bool]:
    infos = output.rollout_infos
    return infos["total_reward"], infos["num_turns"], infos["gym_done"]


def reply(content: Any) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": content}]


def checked(step: Any) -> tuple[str | None, float, bool]:
    """Check the form of a step; return observation, reward and whether the episode has ended."""
    observation, reward, has_ended, info = step
    assert math.isfinite(float(reward))
    assert has_ended in (True, False)
    assert isinstance(info, dict)
    assert observation is None or isinstance(observation, str)
    assert has_ended or observation
    return observation, float(reward), bool(has_ended)


# The class.


def test_the_class_is_a_concrete_env_of_coroutines(gym: Gym) -> None:
    env_class = gym.envs[gym.name]
    assert issubclass(env_class, importlib.import_module("swift.rollout.gym_env").Env)
    assert not inspect.isabstract(env_class)
    assert all(inspect.iscoroutinefunction(getattr(env_class, name)) for name in ("reset", "step", "close"))


def test_the_constructor_keeps_the_config_of_the_row(gym: Gym) -> None:
    config = gym.config(0)
    before = copy.deepcopy(config)
    assert gym.envs[gym.name](config).env_config == before
    assert config == before


def test_reset_and_step_return_what_the_scheduler_reads(gym: Gym) -> None:
    async def play() -> None:
        env = gym.env()
        observation, info, system = await env.reset(gym.request())
        assert observation.strip()
        assert system is None or isinstance(system, str)
        json.dumps(info)
        messages = [{"role": "system", "content": system or ""}, {"role": "user", "content": observation}]
        messages += reply(gym.case.make_policy()(messages, 1))
        before = copy.deepcopy(messages)
        checked(await env.step(messages))
        assert messages == before
        await env.close()

    asyncio.run(play())


def test_replies_without_an_action_raise_nothing(gym: Gym) -> None:
    parts = [{"type": "text", "text": "hello"}]

    async def play() -> None:
        for content in (NO_ACTION, "", "   ", "<action></action>", "\x00", "x" * 20_000, None, parts):
            env = gym.env()
            await env.reset(gym.request())
            checked(await env.step(reply(content)))
            await env.close()

    asyncio.run(play())


def test_close_may_come_twice_and_before_reset(gym: Gym) -> None:
    async def close() -> None:
        started, fresh = gym.env(), gym.env()
        await started.reset(gym.request())
        for env in (started, started, fresh):
            await env.close()

    asyncio.run(close())


def test_a_step_after_the_end_pays_nothing(gym: Gym) -> None:
    async def play() -> None:
        env, policy = gym.env(), gym.case.make_policy()
        observation, *_ = await env.reset(gym.request())
        messages: list[dict[str, Any]] = [{"role": "user", "content": observation}]
        for turn in range(1, gym.case.max_turns + 1):
            messages += reply(policy(messages, turn))
            observation, _, has_ended = checked(await env.step(messages))
            if has_ended:
                assert checked(await env.step(messages))[1:] == (0, True)
                return
            messages.append({"role": "user", "content": observation})
        pytest.skip("the policy does not reach an end")

    asyncio.run(play())


def test_the_seed_chooses_the_episode(gym: Gym) -> None:
    async def first(seed: int) -> str:
        env = gym.env(seed)
        observation, *_ = await env.reset(gym.request(seed))
        await env.step(reply(NO_ACTION))
        again, *_ = await env.reset(gym.request(seed))
        await env.close()
        assert again == observation
        return observation

    firsts = [asyncio.run(first(seed)) for seed in (0, 0, 1, 2, 3, 4)]
    assert firsts[0] == firsts[1]
    assert len(set(firsts)) > 1


# The scheduler.


def test_the_first_messages_are_those_of_the_game(gym: Gym) -> None:
    scheduler, request = gym.scheduler(gym.engine()), gym.request()
    asyncio.run(scheduler.on_trajectory_start([request]))
    assert [message["role"] for message in request.messages] in (["system", "user"], ["user"])
    assert "<placeholder>" not in request.messages[-1]["content"]
    asyncio.run(scheduler._close_and_remove(request.uuid))


def test_a_trajectory_runs_in_server_mode_and_closes_its_environment(gym: Gym) -> None:
    engine = gym.engine()
    scheduler = gym.scheduler(engine)
    infos = gym.stand_ins.checked_infos(gym.run(gym.request(), scheduler))
    assert infos["total_reward"] == pytest.approx(sum(infos["step_rewards"]))
    assert infos["num_turns"] == len(infos["step_rewards"]) == engine.calls
    assert gym.case.reward is None or infos["total_reward"] == pytest.approx(gym.case.reward)
    assert not infos["gym_done"] or not scheduler._envs


def test_colocate_mode_plays_what_server_mode_plays(gym: Gym) -> None:
    requests = [gym.request(seed) for seed in range(4)]
    outputs = gym.stand_ins.play_colocated(gym.scheduler(gym.engine()), requests, gym.case.max_turns)
    served = [gym.play(seed) for seed in range(4)]
    assert [summary(output) for output in outputs] == [summary(output) for output in served]
    assert [gym.transcript(output) for output in outputs] == [gym.transcript(output) for output in served]


def test_trajectories_at_once_play_what_each_plays_alone(gym: Gym) -> None:
    seeds = [number // 2 for number in range(AT_ONCE)]
    requests = [gym.request(seed) for seed in seeds]
    scheduler = gym.scheduler(gym.engine(delay=0.001))
    outputs = asyncio.run(scheduler.async_infer(requests, gym.stand_ins.ONCE, use_tqdm=False))
    alone = {seed: gym.transcript(gym.play(seed)) for seed in range(8)}
    assert [gym.transcript(output) for output in outputs[:16]] == [alone[seed] for seed in seeds[:16]]
    assert len(outputs) == AT_ONCE


def test_threads_with_a_loop_each_play_what_one_plays(gym: Gym) -> None:
    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(lambda number: summary(gym.play(number % 4)), range(16)))
    assert results == results[:4] * 4


def test_a_reused_uuid_gets_a_new_environment(gym: Gym) -> None:
    scheduler, first, second = gym.scheduler(gym.engine()), gym.request(), gym.request()
    second.uuid = first.uuid
    asyncio.run(scheduler.on_trajectory_start([first]))
    before = scheduler._envs[first.uuid]
    asyncio.run(scheduler.on_trajectory_start([second]))
    assert scheduler._envs[first.uuid] is not before


def test_the_name_in_a_row_replaces_that_of_the_command_line(gym: Gym) -> None:
    with pytest.raises(ValueError, match="no_such_env"):
        gym.run(gym.request(), gym.scheduler(gym.engine(), gym_env="no_such_env"))
    named = gym.stand_ins.request_of({**gym.config(0), "name": gym.name})
    output = gym.run(named, gym.scheduler(gym.engine(), gym_env="no_such_env"))
    assert summary(output) == summary(gym.play())


def test_a_row_without_a_config_plays(gym: Gym) -> None:
    output = gym.run(gym.stand_ins.request_of(None), gym.scheduler(gym.engine()))
    gym.stand_ins.checked_infos(output)


def test_max_turns_ends_an_endless_episode(gym: Gym) -> None:
    scheduler = gym.scheduler(gym.engine(policies.constant(NO_ACTION)), max_turns=2)
    assert gym.run(gym.request(), scheduler).rollout_infos["num_turns"] <= 2


def test_the_scoring_reads_the_total_reward(gym: Gym) -> None:
    torch = pytest.importorskip("torch")
    score = importlib.import_module("swift.rl_core.grpo_algorithm").score_completions
    samples = [SimpleNamespace(rollout_infos=gym.play(seed).rollout_infos) for seed in (0, 1)]
    scores = score(samples, [], [], True, torch.device("cpu"))
    assert scores[:, 0].tolist() == pytest.approx([sample.rollout_infos["total_reward"] for sample in samples])
