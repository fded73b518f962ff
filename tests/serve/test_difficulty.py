"""The controller of a difficulty holds the success of simulated learners, and a pool plays with its value."""

import asyncio
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from jaxgym.errors import OptionError
from jaxgym.serve.episodes import Episode
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.pool.difficulty import HIGH, LOW, Controller
from jaxgym.serve.rollout import Scheduler, rollout
from jaxgym.serve.rollout.policies import Choice, Message, Request
from jaxgym.serve.trainers.dataset import dataset, env_configs
from jaxgym.serve.trainers.episode import play

GAME = "frozen_lake"
OPTIONS = {"size": 4, "max_turns": 1, "adapt": "max_steps=90:80", "adapt_group": 4}
GROUP = 8


def learner(skill: Callable[[int], float], width: float) -> Callable[[int, int], float]:
    """Return the success of a learner by difficulty and number of groups so far."""
    return lambda value, groups: 1 / (1 + math.exp((value - skill(groups)) / width))


def trained(controller: Controller, success: Callable[[int, int], float], groups: int, seed: int) -> list[float]:
    """Return the expected success of each group; four groups are played at a time, and end in any order."""
    draw, expected = random.Random(seed), list[float]()
    for batch in range(0, groups, 4):
        episodes = [controller.start(level) for level in range(batch, batch + 4) for _ in range(GROUP)]
        assert len({id(group) for group in episodes}) == 4
        expected += [success(group.value, batch) for group in episodes[::GROUP]]
        draw.shuffle(episodes)
        for group in episodes:
            controller.end(group, draw.random() < success(group.value, batch))
    return expected


SKILLS: dict[str, Callable[[int], float]] = {
    "constant": lambda _: 12.0,
    "learning": lambda groups: 5 + groups / 40,
    "learning in jumps": lambda groups: 5.0 + 4 * (groups // 200),
    "forgetting": lambda groups: 25 - groups / 40,
}


@pytest.mark.parametrize("name", SKILLS)
@pytest.mark.parametrize("seed", range(3))
def test_the_success_of_a_learner_stays_within_the_bounds(name: str, seed: int) -> None:
    controller = Controller("command_count", 1, 60, group=GROUP)
    expected = trained(controller, learner(SKILLS[name], 3.0), 800, seed)[200:]
    means = [sum(expected[start : start + 40]) / 40 for start in range(0, len(expected), 40)]
    assert all(LOW <= mean <= HIGH for mean in means), means
    assert sum(LOW <= each <= HIGH for each in expected) >= 0.8 * len(expected)


def test_without_control_the_same_learners_leave_the_bounds() -> None:
    for skill in SKILLS.values():
        fixed = Controller("command_count", 1, 1, group=GROUP)
        expected = trained(fixed, learner(skill, 3.0), 800, 0)[200:]
        assert not LOW <= sum(expected) / len(expected) <= HIGH


def test_a_smaller_number_can_be_harder_and_the_value_stays_in_its_range() -> None:
    controller = Controller("clues", 70, 62, 3, group=GROUP)
    assert min(trained(controller, lambda *_: 1.0, 100, 0)) == 1.0
    assert controller.value == 64
    trained(controller, lambda *_: 0.0, 100, 1)
    assert controller.value == 70
    assert controller.record() == {"option": "clues", "value": 70, "success": 0.0, "groups": 200}


def test_one_good_group_is_no_reason_to_move() -> None:
    controller = Controller("command_count", 1, 9, group=GROUP)
    for move in (1, 2):
        *_, group = (controller.start(move) for _ in range(GROUP))
        for _ in range(GROUP):
            controller.end(group, True)
        assert controller.value == move
    stale = Controller("command_count", 1, 9, group=1)
    groups = [stale.start(seed) for seed in range(40)]
    for group in groups:
        stale.end(group, True)
    assert stale.value == 2, "results at an earlier value say nothing about the current one"


def test_a_group_has_one_value_even_if_the_controller_moves_meanwhile() -> None:
    controller = Controller("command_count", 1, 9, group=4)
    early = controller.start(0)
    trained_groups = [[controller.start(level) for _ in range(4)] for level in range(1, 9)]
    for group in trained_groups:
        for episode in group:
            controller.end(episode, True)
    assert controller.value > 1
    assert [controller.start(0) for _ in range(3)] == [early] * 3
    assert controller.start(0).value == controller.value


@pytest.fixture(scope="module")
def pool() -> SessionPool:
    return SessionPool(16)


class Winner:
    """Policy that knows the way on Gymnasium's map of 4 x 4 cells."""

    WAY = ("down", "down", "right", "right", "down", "right")

    def check(self, name: str, options: Any) -> None: ...

    def forget(self, request: Request) -> None: ...

    async def reply(self, request: Request) -> Choice:
        turn = sum(message["role"] == "assistant" for message in request.messages)
        return Choice(Message(f"<action>{self.WAY[turn]}</action>"))


def state(pool: SessionPool, option: str = "max_steps") -> dict[str, Any]:
    (found,) = [each for each in pool.difficulties() if each["option"] == option]
    return found


def test_the_pool_opens_the_current_value_and_counts_each_episode_once(pool: SessionPool) -> None:
    options = {**OPTIONS, "max_turns": 2}
    opened = pool.open_many(GAME, [5, 6, 5, 5, 5, 5], options)
    assert [opening.adapted for opening in opened] == [{"max_steps": 90}] * 6
    assert "90" in opened[0].system_prompt
    ids = [opening.id for opening in opened]
    for _ in range(3):  # one more than an episode has
        pool.step(ids, ["no action"] * 6)
    assert state(pool)["groups"] == 1
    pool.reset(ids, range(6))
    pool.step(ids, ["no action"] * 6)
    pool.close(ids)
    assert state(pool)["groups"] == 1
    for seed in (10, 11, 12):  # episodes that the caller stops after a turn have failed
        stopped = [asyncio.run(pool.aopen(GAME, seed, options)).id for _ in range(4)]
        pool.step(stopped, ["no action"] * 4)
        pool.close(stopped)
    assert (state(pool)["groups"], state(pool)["success"], state(pool)["value"]) == (4, 0.0, 90)
    assert len(pool) == 0


def test_the_value_rises_with_success_and_is_in_the_records(pool: SessionPool) -> None:
    options = {"map_name": "4x4", "adapt": "max_steps=90:80:2", "adapt_group": 4}
    rows = [{"env_config": {"name": GAME, "seed": seed, **options}} for seed in range(12) for _ in range(4)]
    scheduler = Scheduler(Winner(), pool=pool)
    records = [record for part in range(0, 48, 16) for record in rollout(rows[part : part + 16], scheduler)]
    assert all(record["is_solved"] for record in records)
    values = [record["difficulty"] for record in records]
    assert values == [90] * 16 + [88] * 16 + [86] * 16
    assert [record["env_config"]["max_steps"] for record in records] == values
    assert all("adapt" not in record["env_config"] for record in records)


def test_an_episode_keeps_its_value_when_its_session_is_opened_again(pool: SessionPool) -> None:
    options = {**OPTIONS, "max_turns": 3}
    episode = Episode(GAME, 3, options, pool)
    opening = episode.start()
    assert episode.difficulty == opening.difficulty
    pool.close([opening.id])
    assert episode.step("no action").number == 1
    assert episode.played_options == {"levels": "fresh", "size": 4, "max_turns": 3, "max_steps": opening.difficulty}
    episode.close()


def test_the_metrics_of_trainers_have_the_value(pool: SessionPool) -> None:
    async def ask(_: Any) -> str:
        return "no action"

    played = asyncio.run(play({"name": GAME, "seed": 3, **OPTIONS}, ask, pool=pool))
    assert played.metrics["difficulty"] == 90.0
    assert "difficulty" not in asyncio.run(play({"name": GAME, "seed": 3, "max_turns": 1}, ask, pool=pool)).metrics


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"adapt": "max_steps"}, "adapt: expected OPTION=EASIEST:HARDEST"),
        ({"adapt": "max_steps=3"}, "adapt: expected OPTION=EASIEST:HARDEST"),
        ({"adapt": "max_step=3:9"}, "did you mean 'max_steps'"),
        ({"adapt": "size=4:-9"}, "size: expected"),
        ({"adapt": "max_steps=3:9", "max_steps": 5}, "expected max_steps in adapt only"),
        ({"adapt": "max_steps=3:9", "adapt_group": 0}, "adapt_group: expected"),
    ],
)
def test_an_invalid_range_is_an_error_before_any_episode(pool: SessionPool, given: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        pool.open(GAME, 3, given)
    with pytest.raises(OptionError, match=message):
        env_configs([GAME], 1, given)


def test_rows_of_a_list_option_are_written_and_played(pool: SessionPool) -> None:
    rows = dataset("verl", ["sudoku"], 2, {"adapt": "clues=78:40:4"})
    assert '"adapt": "clues=78:40:4"' in rows
    assert pool._adapted("sudoku", {"adapt": "clues=78:40:4"}, 3)[1] == {"clues": [78]}
