"""`check_env`: the contract that every environment of jaxgym keeps, as a check that anybody can run.

env, params = jaxgym.make("MortarMayhem-v0")
jaxgym.testing.check_env(env, params)
"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.environment import AnyEnvironment, EnvParams, Transition
from jaxgym.options import declared
from jaxgym.spaces import Box, Dict, Discrete

_SEEDS = 8
_TIME_LIMIT = 3
_EAGER_STEPS = 2
_STEP_VALUES = 6


class ContractError(AssertionError):
    """An environment that breaks the contract; the message says which part, and what was seen."""


def check_env(env: AnyEnvironment, params: EnvParams | None = None, *, seed: int = 0) -> None:
    """Checks that an environment keeps the contract; returns nothing if it does.

    Parameters match their options and spaces what is returned; reset and step agree in structure and dtype; the same
    key gives the same episode and other keys other levels; jit equals eager and vmap equals a loop; equal instances
    share a trace; the ending, the last reward and `final_observation` survive auto-reset; the time limit truncates;
    levels and banks are honoured; a step makes one drawing, or two when `final_observation` is read.

    Args:
        env: The environment.
        params: Unbatched parameters; those of `make` if None.
        seed: Seed of the keys that are used.

    Raises:
        ContractError: If a part of the contract is broken.
    """
    params = env.default_params if params is None else params
    case = _Case(env, params, seed)
    for check in (
        _check_options,
        _check_structure,
        _check_spaces,
        _check_keys,
        _check_eager,
        _check_vmap,
        _check_traces,
        _check_auto_reset,
        _check_time_limit,
        _check_levels,
        _check_drawings,
    ):
        check(case)


class _Case:
    """An environment under test, with its compiled functions, so that each compiles once."""

    def __init__(self, env: AnyEnvironment, params: Any, seed: int) -> None:
        self.env, self.params = env, params
        self.unlimited = dataclasses.replace(params, max_steps_in_episode=np.int32(0))
        self.limited = dataclasses.replace(params, max_steps_in_episode=np.int32(_TIME_LIMIT))
        self._key = jax.random.key(seed)
        # The same names for all checks: gymnax's reset and step, and what a step does before the auto-reset.
        self.reset, self.step = env.reset, env.step
        self.step_env = jax.jit(env.step_env)
        self.ending, self.drawn = _Ending(env), _Drawn(env)
        # Most of the time goes to compiling. Sampling a level is the largest program of many games: only what is about
        # fresh levels compiles it, and all else takes its levels from a bank.
        self.vmapped_reset = jax.jit(jax.vmap(env.reset, in_axes=(0, None)))
        self.bank = self.vmapped_reset(self.keys(_SEEDS), dataclasses.replace(params, levels=None))[1].level
        self.banked = dataclasses.replace(params, levels=self.bank)

    def key(self) -> jax.Array:
        """Returns a key that was not used before."""
        self._key, key = jax.random.split(self._key)
        return key

    def keys(self, count: int) -> jax.Array:
        """Returns `count` keys that were not used before."""
        return jax.random.split(self.key(), count)

    def action(self) -> jax.Array:
        """Returns a random action."""
        return self.env.action_space(self.params).sample(self.key())

    def play(self, steps: int, params: EnvParams) -> Iterator[tuple[Any, jax.Array, Any, Any]]:
        """Yields state, action, what `step_env` returned and what `step` returned, for a number of random steps."""
        _, state = self.reset(self.key(), params)
        for _ in range(steps):
            action = self.action()
            alone = self.step_env(self.key(), state, action, params)
            stepped = self.step(self.key(), state, action, params)
            yield state, action, alone, stepped
            state = stepped[1]


def _require(holds: Any, message: str) -> None:
    if not holds:
        raise ContractError(message)


def _describe(tree: Any) -> dict[str, tuple[Any, Any]]:
    """Returns shape and dtype of each array, by path."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): (jnp.shape(leaf), jnp.result_type(leaf)) for path, leaf in leaves}


def _difference(one: Any, other: Any) -> str | None:
    """Returns the path of the first array that differs between two trees, or None if all are equal."""
    ones, others = (jax.tree_util.tree_leaves_with_path(tree) for tree in (one, other))
    if [path for path, _ in ones] != [path for path, _ in others]:
        return "the structure"
    for (path, left), (_, right) in zip(ones, others, strict=True):
        if jnp.shape(left) != jnp.shape(right) or not np.array_equal(np.asarray(left), np.asarray(right)):
            return jax.tree_util.keystr(path) or "the array"
    return None


def _require_equal(one: Any, other: Any, message: str) -> None:
    path = _difference(one, other)
    _require(path is None, f"{message}: {path} differs")


def _check_options(case: _Case) -> None:
    for name, option in declared(type(case.params)).items():
        expected, found = (_describe(value) for value in (option.convert(option.default), getattr(case.params, name)))
        _require(expected == found, f"the parameter {name} is {found}; its option is declared as {expected}")


def _check_structure(case: _Case) -> None:
    observation, state = jax.eval_shape(case.env.reset, case.key(), case.params)
    stepped = jax.eval_shape(case.env.step, case.key(), state, case.action(), case.params)
    _require(len(stepped) == _STEP_VALUES, f"step returns {len(stepped)} values; it has to return {_STEP_VALUES}")
    for name, first, later in (("observation", observation, stepped[0]), ("state", state, stepped[1])):
        ones, others = _describe(first), _describe(later)
        _require(ones == others, f"reset and step disagree about the {name}: {ones} and {others}")
    info = stepped[5]
    for name in ("reward", "length", "terminated", "truncated", "level_index", "final_observation"):
        _require(name in info, f"info has no entry {name!r}")
    dtypes = {"reward": jnp.float32, "terminated": jnp.bool_, "truncated": jnp.bool_, "level_index": jnp.int32}
    for (name, dtype), value in zip(dtypes.items(), (*stepped[2:5], info["level_index"]), strict=True):
        _require(
            value.shape == () and value.dtype == dtype,
            f"{name} is {value.dtype} {value.shape}; it has to be a scalar of {np.dtype(dtype)}",
        )
    _require(
        _describe(info["final_observation"]) == _describe(observation),
        "final_observation is not of the observation's structure, shape and dtype",
    )
    is_counter = jnp.issubdtype(state.time.dtype, jnp.integer) and state.time.shape == ()
    _require(is_counter, f"state.time is {state.time.dtype} {state.time.shape}; it has to be an integer scalar")


def _holds(space: Any, value: Any) -> str | None:
    """Returns why a space does not hold a value, or None if it does."""
    if isinstance(space, Dict):
        if set(space.spaces) != set(value):
            return f"its entries are {sorted(value)}, the space has {sorted(space.spaces)}"
        reasons = (_holds(child, value[name]) for name, child in space.spaces.items())
        return next((reason for reason in reasons if reason), None)
    if value.shape != tuple(space.shape) or value.dtype != space.dtype:
        return f"it is {value.dtype} {value.shape}, the space {np.dtype(space.dtype)} {space.shape}"
    low, high = (0, space.n - 1) if isinstance(space, Discrete) else (space.low, space.high)
    value = np.asarray(value)
    if not ((value >= np.asarray(low)) & (value <= np.asarray(high))).all():
        return f"its values {value.min()} to {value.max()} leave the space's {low} to {high}"
    return None


def _check_spaces(case: _Case) -> None:
    space = case.env.observation_space(case.params)
    _require(isinstance(space, Box | Dict), f"the observation space is {space!r}; it has to be a Box or a Dict")
    for _ in range(_SEEDS):
        reason = _holds(case.env.action_space(case.params), case.action())
        _require(reason is None, f"the action space does not hold its own sample: {reason}")
    observation, _ = case.reset(case.key(), case.params)
    reason = _holds(space, observation)
    _require(reason is None, f"the observation space does not hold the first observation: {reason}")
    for _, _, _, stepped in case.play(_SEEDS, case.params):
        reason = _holds(space, stepped[0])
        _require(reason is None, f"the observation space does not hold an observation: {reason}")


def _check_keys(case: _Case) -> None:
    key, action = case.key(), case.action()
    ones, others = (case.reset(jax.random.clone(key), case.params) for _ in range(2))
    _require_equal(ones, others, "two resets with the same key differ")
    key_step = case.key()
    ones, others = (case.step(jax.random.clone(key_step), ones[1], action, case.params) for _ in range(2))
    _require_equal(ones, others, "two steps with the same key, state and action differ")
    levels = _levels(case.bank)
    _require(
        any(_difference(levels[0], level) for level in levels[1:]),
        f"{_SEEDS} resets with different keys give one level",
    )


def _check_eager(case: _Case) -> None:
    key, key_step = case.key(), case.key()
    jitted = case.reset(key, case.params)
    with jax.disable_jit():
        eager = case.reset(jax.random.clone(key), case.params)
    _require_equal(jitted, eager, "reset under jit and without jit differ")
    state = jitted[1]
    for _ in range(_EAGER_STEPS):
        action = case.action()
        jitted = case.step(jax.random.clone(key_step), state, action, case.banked)
        with jax.disable_jit():
            eager = case.step(jax.random.clone(key_step), state, action, case.banked)
        _require_equal(jitted, eager, "step under jit and without jit differ")
        state = jitted[1]


def _stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)


def _levels(bank: Any) -> list[Any]:
    return [jax.tree.map(lambda leaf: leaf[index], jax.device_get(bank)) for index in range(_SEEDS)]  # noqa: B023


def _check_vmap(case: _Case) -> None:
    keys, keys_step = case.keys(_SEEDS), case.keys(_SEEDS)
    actions = [case.action() for _ in range(_SEEDS)]
    one_by_one = [case.reset(key, case.params) for key in keys]
    together = case.vmapped_reset(jax.random.clone(keys), case.params)
    _require_equal(together, _stack(one_by_one), "vmapped resets and resets one by one differ")
    states = [state for _, state in one_by_one]
    one_by_one = [
        case.step(key, state, action, case.banked)
        for key, state, action in zip(keys_step, states, actions, strict=True)
    ]
    together = case.drawn.step(jax.random.clone(keys_step), _stack(states), jnp.stack(actions), case.banked)
    _require_equal(together, _stack(one_by_one), "vmapped steps and steps one by one differ")


def _check_traces(case: _Case) -> None:
    twin = dataclasses.replace(case.env)
    _require(twin == case.env and hash(twin) == hash(case.env), "equal instances are not equal, or hash differently")
    traces = []

    @partial(jax.jit, static_argnames=("env",))
    def reset(env: AnyEnvironment, key: jax.Array, params: EnvParams) -> Any:
        traces.append(env)
        return env.reset(key, params)

    for instance in (case.env, twin):
        jax.eval_shape(partial(reset, instance), case.key(), case.params)
    _require(len(traces) == 1, f"{len(traces)} traces for two equal instances; there has to be one")


def _check_ending(case: _Case, params: EnvParams, alone: Any, stepped: Any, truncated: bool) -> None:
    """Checks one step against the same step without auto-reset."""
    last, last_state, reward, terminated, _ = alone
    observation, state, *_, info = stepped
    _require_equal(stepped[2:4], (reward, terminated), "reward or terminated is not the one before the auto-reset")
    _require(
        bool(stepped[4]) == truncated, f"truncated is {stepped[4]} at step {last_state.time}; expected {truncated}"
    )
    _require_equal(info["final_observation"], last, "final_observation is not the one before the auto-reset")
    entries = [info[name] for name in ("terminated", "truncated", "level_index")]
    _require_equal(entries, [*stepped[3:5], last_state.level_index], "flags or level_index in info are not the step's")
    if terminated or truncated:
        _require(state.time == 0, f"state.time is {state.time} after an ending; a new episode starts at 0")
        seen, started = case.env.reset_to_level(case.key(), state.level, dataclasses.replace(params, levels=None))
        first = (seen, dataclasses.replace(started, level_index=state.level_index))
        _require_equal((observation, state), first, "what follows an ending is not the start of a level")
        _check_index(params, state)
    else:
        _require_equal((observation, state), (last, last_state), "a step that ends nothing is not the bare step")


def _check_index(params: EnvParams, state: Any) -> None:
    """Check that the first state of an episode has the index of its level in the level buffer, -1 without one."""
    index, bank = int(state.level_index), params.levels
    _require((index == -1) == (bank is None), f"level_index is {index}; it has to be -1 without a level buffer alone")
    level = state.level if bank is None else jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], bank)
    _require_equal(state.level, level, f"a reset gives another level than number {index} of the level buffer")


def _check_auto_reset(case: _Case) -> None:
    for _, _, alone, stepped in case.play(_SEEDS, case.unlimited):
        _check_ending(case, case.unlimited, alone, stepped, truncated=False)
    # An episode that ends by its rules in the next step, whatever the action: the game's own transition, ended.
    ending, params = case.ending, dataclasses.replace(case.unlimited, levels=case.bank)
    _, state = case.reset(case.key(), case.unlimited)
    action = case.action()
    alone = ending.step_env(case.key(), state, action, params)
    _require(alone[3], "the ending under test did not end")
    _check_ending(case, params, alone, ending.step(case.key(), state, action, params), truncated=False)


def _check_time_limit(case: _Case) -> None:
    for state, _, alone, stepped in case.play(3 * _TIME_LIMIT, case.limited):
        # Where an action is repeated, a step counts as several.
        time = alone[1].time
        _require(time > state.time, f"state.time is {time} after a step from {state.time}; it has to grow")
        _check_ending(case, case.limited, alone, stepped, truncated=bool(time >= _TIME_LIMIT))
    _, state = case.reset(case.key(), case.limited)
    state = dataclasses.replace(state, time=jnp.asarray(_TIME_LIMIT - 1, dtype=state.time.dtype))
    action, ending, params = case.action(), case.ending, dataclasses.replace(case.limited, levels=case.bank)
    alone = ending.step_env(case.key(), state, action, params)
    _check_ending(case, params, alone, ending.step(case.key(), state, action, params), truncated=True)


class _Ending:
    """An environment whose every step also ends the episode by its rules."""

    def __init__(self, env: AnyEnvironment) -> None:
        class Ending(type(env)):
            def transition(self, state: Any, action: jax.Array, params: Any) -> Transition:
                made = super().transition(state, action, params)
                return dataclasses.replace(made, terminated=jnp.ones_like(made.terminated))

        ending = _same(Ending, env)
        self.step, self.step_env = ending.step, jax.jit(ending.step_env)


def _same(kind: type[Any], env: AnyEnvironment) -> Any:
    """Return an environment of another class with the same fields."""
    return kind(**{field.name: getattr(env, field.name) for field in dataclasses.fields(env)})


def _check_levels(case: _Case) -> None:
    for level in _levels(case.bank):
        _, state = case.env.reset_to_level(case.key(), level, dataclasses.replace(case.unlimited, levels=None))
        _require_equal(state.level, level, "reset_to_level does not start in the level that it was given")
    for key in case.keys(_SEEDS):
        _check_index(case.banked, case.reset(key, case.banked)[1])


def _check_drawings(case: _Case) -> None:
    _, states = case.vmapped_reset(case.keys(_SEEDS), case.params)
    actions = jnp.stack([case.action() for _ in range(_SEEDS)])
    each = case.drawn.marks_of_a_drawing(case.key(), jax.tree.map(lambda leaf: leaf[0], states), case.params)
    for name, step, drawings in (("unread", case.drawn.step_unread, 1), ("read", case.drawn.step, 2)):
        made = case.drawn.marks(step, case.keys(_SEEDS), states, actions, case.banked) / each
        _require(
            made == drawings,
            f"a step makes {made:g} drawings when final_observation is {name}; it has to make {drawings}",
        )


class _Drawn:
    """An environment that counts the drawings that a compiled batch makes, however cheap a drawing is."""

    def __init__(self, env: AnyEnvironment) -> None:
        self._counts = counts = {"traced": 0, "run": 0}

        def note(number: np.ndarray) -> np.ndarray:
            counts["run"] += 1
            return np.zeros(np.shape(number), np.int32)

        def marked(observation: Any) -> Any:
            """Return the observation, which XLA then can't make without a call of `note`."""
            counts["traced"] += 1
            number = next(leaf for leaf in jax.tree.leaves(observation) if leaf.size).ravel()[0]
            zero = jax.pure_callback(note, jax.ShapeDtypeStruct((), jnp.int32), number, vmap_method="expand_dims")
            return jax.tree.map(lambda leaf: jnp.where(zero == 0, leaf, jnp.zeros_like(leaf)), observation)

        class Drawn(type(env)):
            def observe(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
                before = counts["traced"]
                observation = super().observe(key, state, action, params)
                return observation if counts["traced"] > before else marked(observation)

            def observe_scene(self, scene: Any) -> Any:
                return marked(super().observe_scene(scene))

        drawn = _same(Drawn, env)

        def step_unread(*args: Any) -> Any:
            *stepped, info = drawn.step(*args)
            return *stepped, {name: entry for name, entry in info.items() if name != "final_observation"}

        self._observe = drawn.observe
        self.step, self.step_unread = (
            jax.jit(jax.vmap(step, in_axes=(0, 0, 0, None))) for step in (drawn.step, step_unread)
        )

    def marks_of_a_drawing(self, key: jax.Array, state: Any, params: Any) -> int:
        """Return the marks that one call of `observe` sets."""
        self._counts["traced"] = 0
        jax.eval_shape(lambda: self._observe(key, state, None, params))
        return self._counts["traced"]

    def marks(self, step: Callable[..., Any], *args: Any) -> int:
        """Return the marks that are run through in a compiled step."""
        self._counts["run"] = 0
        jax.block_until_ready(step(*args))
        return self._counts["run"]
