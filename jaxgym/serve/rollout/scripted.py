"""Policies without a model: the scripted expert of an environment, and random actions."""

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym import registry, text
from jaxgym.errors import OptionError
from jaxgym.options import plain
from jaxgym.serve.pool.programs import Logic
from jaxgym.serve.rollout.policies import Choice, Message, Policy, Request
from jaxgym.serve.sessions import SESSION_OPTIONS

Game = tuple[Any, Any, text.TextInterface[Any]]
Action = int | tuple[int, ...]


def game_of(name: str, options: Mapping[str, Any]) -> Game:
    """Return the environment, its parameters and its text interface, with fresh levels; see `jaxgym.text.make`."""
    given = {option: value for option, value in options.items() if option not in SESSION_OPTIONS}
    return _made(name, json.dumps(plain({"levels": "fresh", **given}), sort_keys=True))


@functools.lru_cache(64)
def _made(name: str, options: str) -> Game:
    return text.make_registered(name, **json.loads(options))


class ScriptedPolicy(Policy):
    """Scripted expert of each environment, or random actions.

    The expert reads states, which sessions do not expose. Each trajectory therefore has a second episode on the same
    level; the same actions lead to the same states.
    """

    def __init__(self, kind: Literal["expert", "random"], seed: int = 0):
        """Make a policy; `seed` is that of the random actions, in addition to the level seed."""
        self._kind, self._seed = kind, seed
        self._players: dict[str, Callable[[], Action]] = {}

    def check(self, name: str, options: Mapping[str, Any]) -> None:
        """Raise `OptionError` if an environment has no expert, or no reply for each action."""
        env, params, interface = game_of(name, options)
        if self._kind == "expert" and registry.load(env.env_id).expert is None:
            raise OptionError(f"{env.env_id} has no expert. Use a model or random actions.")
        zero = np.zeros(env.action_space(params).shape, np.int32).tolist()
        try:
            interface.reply_of(tuple(zero) if isinstance(zero, list) else zero)
        except NotImplementedError as error:
            raise OptionError(f"{env.env_id}: its text interface does not define reply_of. Use a model.") from error

    async def reply(self, request: Request) -> Choice:
        """Return the reply for the next action."""
        entries = dict(request.env_config)
        name, seed = entries.pop("name"), entries.pop("seed")
        env, params, interface = game_of(name, entries)
        player = self._players.get(request.uuid)
        if player is None:
            make = _expert if self._kind == "expert" else self._random
            player = self._players[request.uuid] = make(env, params, seed)
        return Choice(Message(interface.reply_of(player())))

    def forget(self, request: Request) -> None:
        """Drop the second episode of a trajectory."""
        self._players.pop(request.uuid, None)

    def _random(self, env: Any, params: Any, seed: int) -> Callable[[], Action]:
        space, draws = env.action_space(params), np.random.default_rng([self._seed, seed])
        highs = np.asarray(getattr(space, "nvec", None) or space.n)
        return lambda: _as_action(draws.integers(highs))


def _expert(env: Any, params: Any, seed: int) -> Callable[[], Action]:
    start, advance = _programs(env, registry.load(env.env_id).expert)
    state = start(jnp.uint32(seed), params)

    def play() -> Action:
        nonlocal state
        action, state = advance(state, params)
        return _as_action(action)

    return play


@functools.lru_cache(64)
def _programs(env: Any, expert: Any) -> tuple[Any, Any]:
    logic = Logic(env, 1)

    def advance(state: Any, params: Any) -> tuple[jax.Array, Any]:
        action = jnp.asarray(expert(env, state, params), jnp.int32)
        return action, logic.move(state, jnp.int32(1), action[None], params)[0]

    return jax.jit(lambda seed, params: logic.start(seed, params)[0]), jax.jit(advance)


def _as_action(action: Any) -> Action:
    numbers = np.asarray(action).tolist()
    return tuple(numbers) if isinstance(numbers, list) else numbers
