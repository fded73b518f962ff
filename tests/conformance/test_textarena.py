"""Our games in TextArena itself; most tests are skipped without it. `make conformance` has TextArena 0.7.4."""

import copy
import importlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from jaxgym import text
from jaxgym.errors import OptionError
from jaxgym.serve import episodes
from jaxgym.serve.pool import RequestError, SessionPool
from tests.conformance.experts import expert
from tests.ids import families

try:
    ta: Any = importlib.import_module("textarena")
except ModuleNotFoundError:
    ta = None

needs_textarena = pytest.mark.skipif(ta is None, reason="TextArena is not installed")
games = ["frozen_lake", "sudoku"]


@pytest.fixture(scope="module", autouse=True)
def pool() -> Iterator[SessionPool]:
    made = SessionPool(capacity=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episodes, "_pools", [made])
        if ta is not None:
            importlib.import_module("jaxgym.serve.textarena")
        yield made
    assert len(made) == 0, "a test left sessions open"


def started(name: str, seed: int | None = 3, **options: Any) -> Any:
    env = ta.make(f"jaxgym/{name}", **options)
    env.reset(num_players=1, seed=seed)
    return env


def test_without_textarena_the_import_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textarena", None)
    monkeypatch.delitem(sys.modules, "jaxgym.serve.textarena", raising=False)
    with pytest.raises(ModuleNotFoundError, match="pip install textarena"):
        importlib.import_module("jaxgym.serve.textarena")


@needs_textarena
def test_every_game_in_words_is_registered_three_times() -> None:
    registry = importlib.import_module("textarena.envs.registration").ENV_REGISTRY
    found = {name.removeprefix("jaxgym/") for name in registry if name.startswith("jaxgym/")}
    assert found == {f"{env_id}{suffix}" for env_id in text.text_envs().values() for suffix in ("", "-train", "-raw")}


@needs_textarena
@pytest.mark.slow
@pytest.mark.parametrize("env_id", families())
def test_every_game_starts_and_takes_a_reply_under_all_of_its_ids(env_id: str) -> None:
    play = expert(env_id, 3)
    reply = play()
    for suffix in ("", "-train", "-raw"):
        env = started(f"{env_id}{suffix}")
        player, first = env.get_observation()
        has_ended, info = env.step(reply)
        assert player == 0
        assert first
        assert not has_ended
        assert info["invalid_reply"] is None
        assert info["seed"] == 3
        env.close()


@needs_textarena
@pytest.mark.parametrize("nick", games)
@pytest.mark.parametrize("version", ["", "-train"])
def test_the_expert_solves_a_whole_episode_through_textarenas_wrappers(nick: str, version: str) -> None:
    env_id = text.text_envs()[nick]
    env = ta.wrappers.ClipCharactersActionWrapper(started(f"{env_id}{version}"), max_num_characters=200)
    inner = ta.wrappers.LLMObservationWrapper if not version else ta.wrappers.GameBoardObservationWrapper
    assert isinstance(env.env, inner)
    play, has_ended, turns = expert(env_id, 3), False, 0
    while not has_ended:
        player, observation = env.get_observation()
        assert player == 0
        assert isinstance(observation, str)
        has_ended, info = env.step(play())
        turns += 1
    rewards, received = env.close()
    assert rewards == {0: 1.0}
    assert received[0]["is_solved"]
    assert received[0]["turn_count"] == turns == info["step"]
    assert not received[0]["invalid_move"]
    assert received[0]["reason"] == "The game is solved."
    assert env.step("anything") == (True, env.state.step_info)


@needs_textarena
def test_a_seed_means_the_same_episode_and_leaves_the_random_module_alone() -> None:
    random.seed(5)
    before = random.getstate()
    env = started("FrozenLake-v0-raw")
    assert random.getstate() == before
    (_, rules, kind), (sender, board, _) = env.get_observation()[1]
    assert (sender, kind) == (ta.GAME_ID, ta.ObservationType.PROMPT)
    assert "<action>" in rules
    for seed, is_same in ((3, True), (4, False)):
        other = started("FrozenLake-v0-raw", seed)
        assert (other.get_observation()[1][1][1] == board) is is_same
        other.close()
    env.close()


@needs_textarena
def test_without_a_seed_the_random_module_draws_the_level() -> None:
    seeds: list[int] = []
    for state in (7, 7, 8):
        random.seed(state)
        env = started("FrozenLake-v0-raw", None)
        seeds.append(env.state.game_state["seed"])
        env.close()
    assert seeds[0] == seeds[1] != seeds[2]
    assert max(seeds) < 2**31


@needs_textarena
@pytest.mark.parametrize("allowance", [0, 1])
def test_replies_that_are_no_move_are_forgiven_as_often_as_textarena_does(allowance: int) -> None:
    env = started("FrozenLake-v0-raw", error_allowance=allowance)
    env.get_observation()
    for _ in range(allowance):
        assert env.step("I don't know.")[0] is False
        assert "resubmit" in env.get_observation()[1][-1][1]
    has_ended, info = env.step("Still not.")
    rewards, received = env.close()
    assert has_ended
    assert info["invalid_reply"] is not None
    assert rewards == {0: 0.0}
    assert received[0]["invalid_move"]


@needs_textarena
def test_a_second_episode_shows_nothing_of_the_first() -> None:
    env = started("FrozenLake-v0")
    _, first = env.get_observation()
    env.step("<action>up</action>")
    env.reset(num_players=1, seed=3)
    assert env.get_observation()[1] == first
    env.close()


@needs_textarena
def test_a_copy_goes_on_from_where_the_original_stands() -> None:
    env, play = started("FrozenLake-v0"), expert("frozen_lake", 3)
    env.get_observation()
    env.step(play())
    other, reply = copy.deepcopy(env), play()
    assert env.step(reply)[1] == other.step(reply)[1]
    assert env.get_observation() == other.get_observation()
    env.close()
    other.close()


@needs_textarena
def test_what_does_not_exist_is_rejected() -> None:
    with pytest.raises(OptionError, match="sizes"):
        ta.make("jaxgym/FrozenLake-v0", sizes=5)
    env = ta.make("jaxgym/FrozenLake-v0-raw")
    assert env.close() == (None, {})
    with pytest.raises(RequestError, match="Reset it first"):
        env.step("<action>up</action>")
    with pytest.raises(AssertionError, match="number of players"):
        env.reset(num_players=2)
