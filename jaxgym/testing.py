"""`check_env`: a test of the contract of environments, for built-in and your own environments.

env, params = jaxgym.make("MortarMayhem-v0")
jaxgym.testing.check_env(env, params)
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym import facts
from jaxgym.actions import checked_space
from jaxgym.environment import INFO, AnyEnvironment, EnvParams, EnvState
from jaxgym.errors import ContractError
from jaxgym.instrumented import SEEDS, TIME_LIMIT, Case
from jaxgym.options import declared
from jaxgym.pytrees import checked_kind, described, first_difference
from jaxgym.spaces import Box, Dict, Discrete
from jaxgym.text.contract import check_text
from jaxgym.wrappers.base import Wrapper

__all__ = ["ContractError", "check_env", "check_text"]

_EAGER_STEPS = 2
_STEP_VALUES = 6


def check_env(env: AnyEnvironment, params: EnvParams | None = None, *, seed: int = 0) -> None:
    """Check that an environment satisfies the contract.

    - Parameters match their options.
    - Methods return what `Environment` documents. Rewards are finite, and metrics have names of their own.
    - Spaces: they contain observations and actions; `reset` and `step` return equal structures, shapes and dtypes.
    - Keys: the same key gives the same episode; different keys give different levels.
    - Programs: jit equals eager execution, vmap equals a loop, and equal instances share a trace. A step renders once
      if `final_observation` is not read, and twice if it is.
    - Endings: auto-reset keeps the flags, the last reward and `final_observation`; the time limit truncates.
    - Levels: resets start on the given level, and draw from the level buffer.

    Args:
        env: The environment.
        params: Unbatched parameters; those of `make` if None.
        seed: Seed of the PRNG keys.

    Raises:
        ContractError: If the environment violates the contract.
    """
    params = env.default_params if params is None else params
    case = Case(env, params, seed)
    _check_options(case)
    _check_methods(case)
    _check_structure(case)
    case.compile()
    for check in (
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


def _require(holds: Any, message: str) -> None:
    if not holds:
        raise ContractError(message)


def _describe(tree: Any) -> dict[str, tuple[Any, Any]]:
    """Return the shape and dtype of each array, by path."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): (jnp.shape(leaf), jnp.result_type(leaf)) for path, leaf in leaves}


def _difference(one: Any, other: Any) -> str | None:
    """Return the path of the first array that differs between two trees, or None if all are equal."""
    ones, others = (jax.tree_util.tree_leaves_with_path(tree) for tree in (one, other))
    if [path for path, _ in ones] != [path for path, _ in others]:
        return "the structure"
    for (path, left), (_, right) in zip(ones, others, strict=True):
        left, right = np.asarray(left), np.asarray(right)
        if left.shape != right.shape or not np.array_equal(left, right, equal_nan=True):
            return jax.tree_util.keystr(path) or "the array"
    return None


def _require_equal(one: Any, other: Any, message: str) -> None:
    path = _difference(one, other)
    _require(path is None, f"{message}: {path} differs")


def _check_options(case: Case) -> None:
    for name, option in declared(type(case.params)).items():
        expected, found = (_describe(value) for value in (option.convert(option.default), getattr(case.params, name)))
        _require(expected == found, f"the parameter {name} is {found}; its option is declared as {expected}")


def _shapes(case: Case, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the shapes of what a method returns; raise `ContractError` if it raises."""
    try:
        return jax.eval_shape(function, *arguments)
    except ContractError:
        raise
    except Exception as error:
        cause = f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(": ")
        raise ContractError(f"{case.env.env_id}: {method}: expected arrays, got {cause}") from error


def _check_methods(case: Case) -> None:
    """Check the methods that an environment defines, one by one, so that an error names the method."""
    env, key, params = case.env, case.key(), case.params
    for name, space in (("action_space", env.action_space), ("observation_space", env.observation_space)):
        try:
            space(params)
        except TypeError as error:
            raise ContractError(f"{env.env_id}: {name}: expected a space of jaxgym.spaces, got {error}.") from error
    checked_space(env.env_id, env.action_space(params))
    level = _shapes(case, "sample_level", env.sample_level, key, params)
    _require(jax.tree.leaves(level), f"{env.env_id}: sample_level: expected a level with arrays, got {level!r}")
    # A value that is no pytree would be an error of JAX, so the class is checked inside.
    state = _shapes(
        case,
        "initial_state",
        lambda level: checked_kind(env.env_id, "initial_state", env.initial_state(level, params), EnvState),
        level,
    )
    _shapes(case, "hidden", lambda state: facts.hidden(env, state, params), state)
    _shapes(case, "scene, observe_scene", lambda state: env.observe(key, state, None, params), state)
    action = case.action()
    _shapes(case, "transition", lambda state: env.step_env(key, state, action, params), state)


def _check_structure(case: Case) -> None:
    observation, state = jax.eval_shape(case.env.reset, case.key(), case.params)
    stepped = jax.eval_shape(case.env.step, case.key(), state, case.action(), case.params)
    _require(len(stepped) == _STEP_VALUES, f"step: expected {_STEP_VALUES} values, got {len(stepped)}")
    for name, first, later in (("observation", observation, stepped[0]), ("state", state, stepped[1])):
        difference = first_difference(first, later)
        path, *got = difference or ("", "", "")
        _require(
            difference is None, f"{name}{path}: expected equal arrays from reset and step, got {' and '.join(got)}"
        )
    info = stepped[5]
    for name in INFO:
        _require(name in info, f"info has no entry {name!r}")
    dtypes = {"reward": jnp.float32, "terminated": jnp.bool_, "truncated": jnp.bool_, "level_index": jnp.int32}
    for (name, dtype), value in zip(dtypes.items(), (*stepped[2:5], info["level_index"]), strict=True):
        _require(
            value.shape == () and value.dtype == dtype,
            f"{name}: expected {np.dtype(dtype)} (), got {described(value)}",
        )
    _require(
        _describe(info["final_observation"]) == _describe(observation),
        "final_observation: expected the structure, shapes and dtypes of the observation, got others",
    )
    _require(
        jnp.issubdtype(state.time.dtype, jnp.integer) and state.time.shape == (),
        f"state.time: expected an integer scalar, got {state.time.dtype} {state.time.shape}",
    )


def _holds(space: Any, value: Any) -> str | None:
    """Return the reason why a space does not contain a value, or None if it does."""
    if isinstance(space, Dict):
        if set(space.spaces) != set(value):
            return f"expected the entries {sorted(space.spaces)}, got {sorted(value)}"
        reasons = (_holds(child, value[name]) for name, child in space.spaces.items())
        return next((reason for reason in reasons if reason), None)
    if value.shape != tuple(space.shape) or value.dtype != space.dtype:
        return f"expected {np.dtype(space.dtype)} {space.shape}, got {value.dtype} {value.shape}"
    low, high = (0, space.n - 1) if isinstance(space, Discrete) else (space.low, space.high)
    value = np.asarray(value)
    if not ((value >= np.asarray(low)) & (value <= np.asarray(high))).all():
        return f"expected values from {low} to {high}, got values from {value.min()} to {value.max()}"
    return None


def _check_spaces(case: Case) -> None:
    space = case.env.observation_space(case.params)
    _require(isinstance(space, Box | Dict), f"observation space: expected a Box or a Dict, got {space!r}")
    for _ in range(SEEDS):
        reason = _holds(case.env.action_space(case.params), case.action())
        _require(reason is None, f"sample of the action space: {reason}")
    observation, _ = case.reset(case.key(), case.params)
    reason = _holds(space, observation)
    _require(reason is None, f"first observation: {reason}")
    for _, _, _, stepped in case.play(SEEDS, case.params):
        reason = _holds(space, stepped[0])
        _require(reason is None, f"observation of a step: {reason}")
        _require(np.isfinite(stepped[2]), f"reward: expected a finite number, got {stepped[2]}")


def _check_keys(case: Case) -> None:
    key, action = case.key(), case.action()
    ones, others = (case.reset(jax.random.clone(key), case.params) for _ in range(2))
    _require_equal(ones, others, "two resets with the same key differ")
    key_step = case.key()
    ones, others = (case.step(jax.random.clone(key_step), ones[1], action, case.params) for _ in range(2))
    _require_equal(ones, others, "two steps with the same key, state and action differ")
    levels = _levels(case.buffer)
    _require(
        any(_difference(levels[0], level) for level in levels[1:]),
        f"expected different levels from {SEEDS} resets with different keys, got one. In sample_level, derive all "
        "random numbers from the key",
    )


def _check_eager(case: Case) -> None:
    # Sampling a level compiles each of its operations when jit is off, so the levels come from a level buffer.
    key, key_step = case.key(), case.key()
    jitted = case.reset(key, case.buffered)
    with jax.disable_jit():
        eager = case.reset(jax.random.clone(key), case.buffered)
    _require_equal(jitted, eager, "reset under jit and without jit differ")
    state = jitted[1]
    for _ in range(_EAGER_STEPS):
        action = case.action()
        jitted = case.step(jax.random.clone(key_step), state, action, case.buffered)
        with jax.disable_jit():
            eager = case.step(jax.random.clone(key_step), state, action, case.buffered)
        _require_equal(jitted, eager, "step under jit and without jit differ")
        state = jitted[1]


def _stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)


def _levels(buffer: Any) -> list[Any]:
    return [jax.tree.map(lambda leaf: leaf[index], jax.device_get(buffer)) for index in range(SEEDS)]  # noqa: B023


def _check_vmap(case: Case) -> None:
    keys, keys_step = case.keys(SEEDS), case.keys(SEEDS)
    actions = [case.action() for _ in range(SEEDS)]
    one_by_one = [case.reset(key, case.params) for key in keys]
    together = case.vmapped_reset(jax.random.clone(keys), case.params)
    _require_equal(together, _stack(one_by_one), "vmapped resets and resets one by one differ")
    states = [state for _, state in one_by_one]
    one_by_one = [
        case.step(key, state, action, case.buffered)
        for key, state, action in zip(keys_step, states, actions, strict=True)
    ]
    together = case.drawn.step(jax.random.clone(keys_step), _stack(states), jnp.stack(actions), case.buffered)
    _require_equal(together, _stack(one_by_one), "vmapped steps and steps one by one differ")


def _check_traces(case: Case) -> None:
    twin = dataclasses.replace(case.env)
    _require((twin, hash(twin)) == (case.env, hash(case.env)), "two equal instances are not equal or hash differently")
    traces = []

    @partial(jax.jit, static_argnames=("env",))
    def reset(env: AnyEnvironment, key: jax.Array, params: EnvParams) -> Any:
        traces.append(env)
        return env.reset(key, params)

    for instance in (case.env, twin):
        jax.eval_shape(partial(reset, instance), case.key(), case.params)
    _require(len(traces) == 1, f"expected one trace for two equal instances, got {len(traces)}")


def _check_ending(case: Case, params: EnvParams, alone: Any, stepped: Any, truncated: bool) -> None:
    """Compare one step with the same step without auto-reset."""
    last, last_state, reward, terminated, _ = alone
    observation, state, *_, info = stepped
    _require_equal(stepped[2:4], (reward, terminated), "reward or terminated is not the one before the auto-reset")
    _require(
        bool(stepped[4]) == truncated, f"truncated: expected {truncated} at step {last_state.time}, got {stepped[4]}"
    )
    _require_equal(info["final_observation"], last, "final_observation is not the one before the auto-reset")
    entries = [info[name] for name in ("terminated", "truncated", "level_index")]
    _require_equal(entries, [*stepped[3:5], last_state.level_index], "flags or level_index in info are not the step's")
    if terminated or truncated:
        _require(state.time == 0, f"state.time: expected 0 at the start of an episode, got {state.time}")
        seen, started = case.reset_to_level(case.key(), state.level, dataclasses.replace(params, levels=None))
        first = (seen, dataclasses.replace(started, level_index=state.level_index))
        _require_equal((observation, state), first, "auto-reset does not return the start of a level")
        _check_index(params, state)
    else:
        _require_equal((observation, state), (last, last_state), "step and step_env differ inside an episode")


def _check_index(params: EnvParams, state: Any) -> None:
    """Check that `level_index` of the first state is the index of its level in the buffer, or -1 without a buffer."""
    index, buffer = int(state.level_index), params.levels
    _require((index == -1) == (buffer is None), f"level_index: expected -1 only without a level buffer, got {index}")
    level = state.level if buffer is None else jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], buffer)
    _require_equal(state.level, level, f"the level of a reset is not level {index} of the level buffer")


def _check_auto_reset(case: Case) -> None:
    for _, _, alone, stepped in case.play(SEEDS, case.unlimited):
        _check_ending(case, case.unlimited, alone, stepped, truncated=False)
    # The game's own transition with `terminated` set, so that the next step ends the episode for any action.
    ending, params = case.ending, dataclasses.replace(case.unlimited, levels=case.buffer)
    _, state = case.reset(case.key(), case.unlimited)
    action = case.action()
    alone = ending.step_env(case.key(), state, action, params)
    _require(alone[3], "the ending under test did not end")
    _check_ending(case, params, alone, ending.step(case.key(), state, action, params), truncated=False)


def _check_time_limit(case: Case) -> None:
    for state, _, alone, stepped in case.play(3 * TIME_LIMIT, case.limited):
        time = alone[1].time
        if isinstance(case.env, Wrapper):  # with frame skipping, a step counts as several
            _require(time > state.time, f"state.time: expected more than {state.time} after a step, got {time}")
        else:
            fix = "In transition, do not change the time"
            _require(time == state.time + 1, f"state.time: expected {state.time + 1} after a step, got {time}. {fix}")
        _check_ending(case, case.limited, alone, stepped, truncated=bool(time >= TIME_LIMIT))
    _, state = case.reset(case.key(), case.limited)
    state = dataclasses.replace(state, time=jnp.asarray(TIME_LIMIT - 1, dtype=state.time.dtype))
    action, ending, params = case.action(), case.ending, dataclasses.replace(case.limited, levels=case.buffer)
    alone = ending.step_env(case.key(), state, action, params)
    _check_ending(case, params, alone, ending.step(case.key(), state, action, params), truncated=True)


def _check_levels(case: Case) -> None:
    for level in _levels(case.buffer):
        _, state = case.reset_to_level(case.key(), level, dataclasses.replace(case.unlimited, levels=None))
        _require_equal(state.level, level, "reset_to_level does not start on the given level")
    for key in case.keys(SEEDS):
        _check_index(case.buffered, case.reset(key, case.buffered)[1])


def _check_drawings(case: Case) -> None:
    _, states = case.vmapped_reset(case.keys(SEEDS), case.params)
    actions = jnp.stack([case.action() for _ in range(SEEDS)])
    each = case.drawn.marks_of_a_drawing(case.key(), jax.tree.map(lambda leaf: leaf[0], states), case.params)
    for name, step, drawings in (("unread", case.drawn.step_unread, 1), ("read", case.drawn.step, 2)):
        made = case.drawn.marks(step, case.keys(SEEDS), states, actions, case.buffered) / each
        _require(
            made == drawings,
            f"expected {drawings} renderings in a step when final_observation is {name}, got {made:g}",
        )
