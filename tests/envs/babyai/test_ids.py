"""The 96 ids: each can be made, and the page has the table of all."""

import gymnasium
import jax
import pytest

import jaxgym
from docs.babyai_table import PAGE, REGION, ids_table
from jaxgym import levels, text
from jaxgym.envs.babyai import SPECS
from jaxgym.envs.babyai.mission import MISSION_LENGTH


@pytest.mark.parametrize("env_id", SPECS)
def test_an_id_can_be_made_with_its_text_interface(env_id: str) -> None:
    env, params = jaxgym.make(env_id)
    level = levels.original(env_id, [0])
    state = jax.eval_shape(env.initial_state, jax.tree.map(lambda leaf: leaf[0], level), params)
    assert state.world.cells.shape == level.cells.shape[1:]
    assert f"jaxgym/{env_id}" in gymnasium.registry
    interface = text.make(env_id)[2]
    assert "Your task: fulfill the mission" in interface.system_prompt(params)


def test_each_observation_has_the_mission() -> None:
    for observation in ("symbolic", "one_hot", "pixels", "full_pixels"):
        env, params = jaxgym.make("BabyAI-GoToLocal-v0", observation=observation)
        level = jax.tree.map(lambda leaf: leaf[0], levels.original("BabyAI-GoToLocal-v0", [0]))
        seen = jax.eval_shape(lambda: env.observe_scene(env.scene(env.initial_state(level, params), params)))  # noqa: B023
        spaces = env.observation_space(params).spaces
        assert {name: leaf.shape for name, leaf in seen.items()} == {name: part.shape for name, part in spaces.items()}
        assert seen["mission"].shape == (MISSION_LENGTH,)


def test_the_page_has_the_table_that_its_script_makes() -> None:
    ((_, table, _),) = REGION.findall(PAGE.read_text())
    assert table == ids_table(), "run python -m docs.babyai_table"
