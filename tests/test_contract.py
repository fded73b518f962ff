"""Every id satisfies the contract, and works with gymnax's wrappers."""

import dataclasses
from typing import Any

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from gymnax import wrappers
from gymnax.environments import spaces as gymnax_spaces
from gymnax.wrappers import gym as gymnax_gym

import jaxgym
from jaxgym import testing
from tests.ids import BABYAI, CLASSICS, families, one_of_each_program, others_of_babyai
from tests.t_maze import TMaze, t_maze

SAFE_FOR_THREE_STEPS = {"FrozenLake-v0": {"map_name": "8x8"}}


# Each of these compiles for several seconds: a quick run has a game on a grid with frames, and Frozen Lake.
COSTLY = (
    "MysteryPath-Grid-v0",
    "SearingSpotlights-v0",
    "Endless-MysteryPath-v0",
    "TextCraft-v0",
    "Sudoku-v0",
    "MiniGrid-MemoryS7-v0",
    "NumpadContinuous-v0",
    "Endless-TMaze-v0",
    "MemoryCards-v0",
    "Numpad-v0",
    "Passive-VisualMatch-v0",
    "BossFight-v0",
    "Ballet-v0",
    "ColorCubes-v0",
)


@pytest.mark.parametrize("env_id", [*one_of_each_program(*COSTLY), *others_of_babyai()])
def test_every_id_keeps_the_contract(env_id: str) -> None:
    testing.check_env(*jaxgym.make(env_id))


@pytest.mark.slow
@pytest.mark.parametrize("env_id", families())
def test_every_id_keeps_the_contract_with_another_observation(env_id: str) -> None:
    declared = jaxgym.spec_of(env_id).options["observation"]
    other = "pixels" if declared.default == "symbolic" else "symbolic"
    testing.check_env(*jaxgym.make(env_id, observation=other))


@pytest.mark.slow
def test_flat_actions_keep_the_contract() -> None:
    testing.check_env(*jaxgym.make("MortarMayhem-v0", flat_actions=True))


@struct.dataclass
class WalkState(jaxgym.EnvState):
    """A position on a line."""

    place: jax.Array


@dataclasses.dataclass(unsafe_hash=True)
class Walk(jaxgym.Environment[jax.Array, WalkState, jaxgym.EnvParams, jax.Array]):
    """The smallest environment that satisfies the contract: a walk from a random position, observed as a ruler."""

    def action_space(self, params: Any = None) -> Any:
        del params
        return jaxgym.spaces.Discrete(3)

    def observation_space(self, params: Any = None) -> Any:
        del params
        return jaxgym.spaces.Box(low=-1.0, high=1.0, shape=(1000,), dtype=jnp.float32)

    def sample_level(self, key: jax.Array, params: Any) -> jax.Array:
        del params
        return jax.random.randint(key, (), 0, 1000)

    def initial_state(self, level: jax.Array, params: Any) -> WalkState:
        del params
        return WalkState(level=level, place=level)

    def transition(self, state: WalkState, action: jax.Array, params: Any) -> jaxgym.Transition:
        del params
        state = dataclasses.replace(state, place=state.place + action - 1)
        return jaxgym.Transition(state, jnp.float32(1.0), state.place < 0, {})

    def scene(self, state: WalkState, params: Any) -> jax.Array:
        del params
        return state.place

    def observe_scene(self, scene: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice(jnp.zeros(1000), jnp.ones(1), (scene,))


def check_walk(**methods: Any) -> None:
    testing.check_env(type("Changed", (Walk,), methods)("Walk-v0", jaxgym.EnvParams()))


def test_the_smallest_environment_keeps_the_contract() -> None:
    check_walk()


class TestTheCheckFailsWhen:
    """`check_env` on environments that break one part of the contract each."""

    def check(self, message: str, **methods: Any) -> None:
        with pytest.raises(testing.ContractError, match=message):
            check_walk(**methods)

    def check_step(self, message: str, change: Any) -> None:
        """Check Walk with a step whose result passes through `change`."""

        def step(self: Any, key: jax.Array, state: Any, action: Any, params: Any = None) -> Any:
            return change(*Walk.step(self, key, state, action, params))

        self.check(message, step=step)

    def test_the_observation_leaves_its_space(self) -> None:
        self.check(
            "expected values from", observe_scene=lambda self, scene: Walk.observe_scene(self, scene) + jnp.float32(2.0)
        )

    def test_reset_and_step_disagree_in_dtype(self) -> None:
        self.check_step(
            "observation: expected equal arrays", lambda observation, *rest: (observation.astype(jnp.float16), *rest)
        )

    def test_a_flag_is_missing(self) -> None:
        self.check_step("got 5", lambda observation, state, reward, _, *rest: (observation, state, reward, *rest))

    def test_info_lacks_an_entry(self) -> None:
        def change(*values: Any) -> Any:
            return *values[:5], {name: entry for name, entry in values[5].items() if name != "episode_length"}

        self.check_step("no entry 'episode_length'", change)

    def test_the_level_index_is_of_another_dtype(self) -> None:
        def change(*values: Any) -> Any:
            return *values[:5], {**values[5], "level_index": jnp.float32(0.0)}

        self.check_step(r"level_index: expected int32 \(\), got float32", change)

    def test_the_level_index_is_that_of_the_next_episode(self) -> None:
        def change(observation: Any, state: Any, *rest: Any) -> Any:
            return observation, state, *rest[:3], {**rest[3], "level_index": state.level_index}

        self.check_step("level_index in info", change)

    def test_the_level_index_is_of_another_level(self) -> None:
        def step(self: Any, key: jax.Array, state: Any, action: Any, params: Any = None) -> Any:
            observation, state, *rest = Walk.step(self, key, state, action, params)
            shifted = jnp.where(state.level_index < 0, state.level_index, (state.level_index + 1) % 8)
            state = dataclasses.replace(state, level_index=jnp.where(state.time == 0, shifted, state.level_index))
            return observation, state, *rest

        self.check("is not level .* of the level buffer", step=step)

    def test_all_keys_give_one_level(self) -> None:
        self.check("expected different levels", sample_level=lambda *_: jnp.int32(7))

    def test_the_time_limit_is_ignored(self) -> None:
        self.check("truncated: expected True .*, got False", is_truncated=lambda *_: jnp.bool_(False))

    def test_the_time_stands_still(self) -> None:
        def transition(self: Any, state: WalkState, action: jax.Array, params: Any) -> jaxgym.Transition:
            made = Walk.transition(self, state, action, params)
            return dataclasses.replace(made, state=dataclasses.replace(made.state, time=made.state.time - 1))

        self.check("state.time: expected 1 after a step, got 0", transition=transition)

    def test_instances_hash_by_identity(self) -> None:
        self.check("two equal instances", __eq__=lambda self, other: self is other, __hash__=lambda self: id(self))

    def test_the_last_reward_is_lost(self) -> None:
        def change(observation: Any, state: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
            return observation, state, jnp.where(terminated | truncated, 0.0, reward), terminated, truncated, info

        self.check_step("reward or terminated is not", change)

    def test_final_observation_is_the_next_episodes_first(self) -> None:
        self.check_step(
            "final_observation is not the one before",
            lambda observation, *rest: (observation, *rest[:4], {**rest[4], "final_observation": observation}),
        )

    def test_final_observation_is_always_drawn(self) -> None:
        def change(observation: Any, *rest: Any) -> Any:
            return jnp.where(rest[2] | rest[3], observation, rest[4]["final_observation"]), *rest

        self.check_step("expected 1 renderings in a step when final_observation is unread", change)


class Large(Walk):
    """A walk whose ruler is 2.4 MB, a hundred times more than everything else that a step reads and writes."""

    MARKS = 600_000

    def observation_space(self, params: Any = None) -> Any:
        del params
        return jaxgym.spaces.Box(low=-1.0, high=1.0, shape=(self.MARKS,), dtype=jnp.float32)

    def observe_scene(self, scene: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice(jnp.zeros(self.MARKS), jnp.ones(1), (scene,))


class TestDrawings:
    """`check_env` counts the drawings of a step in small and in large environments."""

    @pytest.mark.parametrize("env", [t_maze(), Large("Large-v0", jaxgym.EnvParams())], ids=["tiny", "large"])
    def test_one_drawing_is_accepted(self, env: Any) -> None:
        testing.check_env(env)

    @pytest.mark.parametrize("kind", [TMaze, Walk, Large], ids=["tiny", "medium", "large"])
    def test_two_drawings_are_rejected(self, kind: type) -> None:
        def step(self: Any, key: jax.Array, state: Any, action: Any, params: Any = None) -> Any:
            observation, state, *flags, info = kind.step(self, key, state, action, params)
            ended = flags[1] | flags[2]
            return jnp.where(ended, observation, info["final_observation"]), state, *flags, info

        self.is_rejected(kind, "when final_observation is unread, got 2", step=step)

    def test_two_drawings_past_observe_are_rejected(self) -> None:
        def step(self: Any, key: jax.Array, state: Any, action: Any, params: Any = None) -> Any:
            params = self.default_params if params is None else params
            last = TMaze.step_env(self, jax.random.key(0), state, action, params)[1]
            _, following, *flags, info = TMaze.step(self, key, state, action, params)
            drawn = [self.observe_scene(self.scene(each, params)) for each in (following, last)]
            return jnp.where(flags[1] | flags[2], *drawn), following, *flags, {**info, "final_observation": drawn[1]}

        self.is_rejected(TMaze, "expected 1 renderings in a step when final_observation is unread", step=step)

    def is_rejected(self, kind: type, message: str, **methods: Any) -> None:
        with pytest.raises(testing.ContractError, match=message):
            testing.check_env(type("Changed", (kind,), methods)("Changed-v0", jaxgym.EnvParams()))


@pytest.fixture(
    scope="module",
    params=[
        each
        for each in one_of_each_program(
            "SearingSpotlights-v0",
            "Endless-MysteryPath-v0",
            "MysteryPath-Grid-v0",
            "Sudoku-v0",
            "TextCraft-v0",
            "MiniGrid-MemoryS7-v0",
            *CLASSICS,
        )
        if each != BABYAI[0]  # three random steps can solve it
    ],
)
def made(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Return each id with a time limit of three steps, before which no rule ends an episode."""
    return jaxgym.make(request.param, max_steps=3, **SAFE_FOR_THREE_STEPS.get(request.param, {}))


@pytest.mark.standard_promotion
class TestGymnaxWrappers:
    @staticmethod
    def roll(env: Any, params: Any, steps: int = 4) -> list[Any]:
        """Return the results of a few steps, the third of which reaches the time limit."""
        key, key_reset = jax.random.split(jax.random.key(0))
        _, state = env.reset(key_reset, params)
        results = []
        for _ in range(steps):
            key, key_action, key_step = jax.random.split(key, 3)
            result = env.step(key_step, state, env.action_space(params).sample(key_action), params)
            state = result[1]
            results.append(result)
        return results

    def test_log_reports_the_return_of_an_episode_at_its_end(self, made: tuple[Any, Any]) -> None:
        env, params = made
        results = self.roll(wrappers.LogWrapper(env), params)
        infos = [result[5] for result in results]
        assert [bool(info["returned_episode"]) for info in infos] == [False, False, True, False]
        assert infos[2]["returned_episode_lengths"] == 3
        np.testing.assert_allclose(infos[2]["returned_episode_returns"], infos[2]["episode_return"])

    def test_legacy_joins_both_flags(self, made: tuple[Any, Any]) -> None:
        env, params = made
        wrapped = wrappers.LegacyStepAPIWrapper(env)
        results = self.roll(wrapped, params)
        assert [bool(result[3]) for result in results] == [False, False, True, False]

    def test_dm_env_keeps_the_discount_at_a_time_limit(self, made: tuple[Any, Any]) -> None:
        env, params = made
        wrapped = wrappers.GymnaxToDmEnvWrapper(env)
        step = wrapped.reset(jax.random.key(0), params)
        for key in jax.random.split(jax.random.key(1), 3):
            step = wrapped.step(key, step, jnp.zeros(env.action_space(params).shape, dtype=jnp.int32), params)
        assert step.discount == 1.0
        assert step.state.time == 0
        assert jax.tree.structure(step.observation) == jax.tree.structure(step.final_observation)

    def test_gym_has_spaces_that_hold_what_it_returns(self, made: tuple[Any, Any]) -> None:
        env, params = made
        wrapped = gymnax_gym.GymnaxToGymWrapper(env, params, seed=1)
        observation, _ = wrapped.reset(seed=2)
        assert wrapped.observation_space.contains(jax.tree.map(np.asarray, observation))
        truncations = [bool(wrapped.step(wrapped.action_space.sample().astype(np.int32))[3]) for _ in range(4)]
        assert truncations == [False, False, True, False]

    def test_vector_gym_steps_a_batch(self, made: tuple[Any, Any]) -> None:
        env, params = made
        wrapped = gymnax_gym.GymnaxToVectorGymWrapper(env, num_envs=2, params=params)
        wrapped.reset(seed=0)
        actions = np.zeros((2, *env.action_space(params).shape), dtype=np.int32)
        truncations = [wrapped.step(actions)[3].tolist() for _ in range(3)]
        assert truncations == [[False, False], [False, False], [True, True]]

    def test_flatten_takes_what_has_no_dict(self, made: tuple[Any, Any]) -> None:
        env, params = made
        if isinstance(env.observation_space(params), gymnax_spaces.Dict):
            pytest.skip("gymnax's flattening wrapper takes boxes only")
        observation, *_ = self.roll(wrappers.FlattenObservationWrapper(env), params)[0]
        assert observation.shape == (np.prod(env.observation_space(params).shape),)

    @pytest.mark.parametrize("env_id", one_of_each_program(*COSTLY, *CLASSICS, BABYAI[0]))
    def test_sticky_repeats_the_last_action(self, env_id: str) -> None:
        options = {"flat_actions": True} if "flat_actions" in jaxgym.spec_of(env_id).options else {}
        env, params = jaxgym.make(env_id, **options)
        if not isinstance(env.action_space(params), gymnax_spaces.Discrete):
            pytest.skip("gymnax's sticky actions are single numbers only")
        wrapped = wrappers.StickyActionWrapper(env, sticky_action_prob=1.0)
        _, state = wrapped.reset(jax.random.key(0), params)
        _, state, *_ = wrapped.step(jax.random.key(1), state, 1, params)
        assert state.last_action == 0

    @pytest.mark.parametrize("env_id", jaxgym.registered_envs())
    def test_gymnax_makes_it_too(self, env_id: str) -> None:
        env, params = gymnax.make(env_id, max_steps=7)
        assert env.name == env_id
        assert params.max_steps_in_episode == 7
