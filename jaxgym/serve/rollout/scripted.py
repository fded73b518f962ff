"""Policies without a model: the scripted expert of a game, and one that draws its actions."""

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

Game = tuple[Any, Any, text.Words[Any]]
Action = int | tuple[int, ...]


def game_of(name: str, options: Mapping[str, Any]) -> Game:
    """Return environment, parameters and words of a game, with levels that are those of their seeds.

    Raises:
        UnknownIdError, OptionError, LevelError: See `jaxgym.text.make`.
    """
    given = {option: value for option, value in options.items() if option not in SESSION_OPTIONS}
    return _made(name, json.dumps(plain({"levels": "fresh", **given}), sort_keys=True))


@functools.lru_cache(64)
def _made(name: str, options: str) -> Game:
    return text.make_registered(name, **json.loads(options))


class ScriptedPolicy(Policy):
    """The expert of each game, or a policy that draws actions of its action space.

    The expert reads states, which no session shows: each trajectory has an episode of its own beside the session's,
    which takes the same way, since the same level and actions lead to the same states.
    """

    def __init__(self, kind: Literal["expert", "random"], seed: int = 0):
        """Chooses one.

        Args:
            kind: Which.
            seed: What the random one draws from, together with the level seed and the turn.
        """
        self._kind, self._seed = kind, seed
        self._players: dict[str, Callable[[], Action]] = {}

    def check(self, name: str, options: Mapping[str, Any]) -> None:
        """Make sure that a game has an expert, and words for actions.

        Raises:
            OptionError: If it lacks one of them.
        """
        env, params, words = game_of(name, options)
        if self._kind == "expert" and registry.load(env.env_id).expert is None:
            raise OptionError(f"{env.env_id} has no expert: play it at random, or by a model.")
        zero = np.zeros(env.action_space(params).shape, np.int32).tolist()
        try:
            words.reply_of(tuple(zero) if isinstance(zero, list) else zero)
        except NotImplementedError as error:
            raise OptionError(f"the words of {env.env_id} name no actions (reply_of): play it by a model.") from error

    async def reply(self, request: Request) -> Choice:
        """Return the next action, as the game words it."""
        entries = dict(request.env_config)
        name, seed = entries.pop("name"), entries.pop("seed")
        env, params, words = game_of(name, entries)
        player = self._players.get(request.uuid)
        if player is None:
            make = _expert if self._kind == "expert" else self._random
            player = self._players[request.uuid] = make(env, params, seed)
        return Choice(Message(words.reply_of(player())))

    def forget(self, request: Request) -> None:
        """Drops the trajectory's own episode."""
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
