"""Games of a pool: each is made once, and games with parameters of equal shapes share their programs."""

import dataclasses
import json
import reprlib
import threading
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxgym import registry, text
from jaxgym.errors import OptionError
from jaxgym.options import check_names, plain, resolve
from jaxgym.serve.images import default_scale
from jaxgym.serve.pool.games import GameTable
from jaxgym.serve.pool.programs import Logic, Programs
from jaxgym.serve.sessions import SESSION_OPTIONS, SessionOptions
from jaxgym.text import contract
from jaxgym.text.interface import PARSING

_MOST_IDLE = 64
"""Maximum number of cached games without sessions."""

Options = Mapping[str, Any]


class Games:
    """Games by name and options; making one can take seconds and does not block the others."""

    def __init__(self, capacity: int, device: Any, *, allows_lenient: bool):
        """Make an empty library of games with at most `capacity` sessions each."""
        self._capacity, self._device, self._allows_lenient = capacity, device, allows_lenient
        self._making = threading.Lock()
        self._games: dict[Any, GameTable] = {}
        self._programs: dict[Any, Programs] = {}

    def has(self, name: str, options: Options) -> bool:
        """Return whether a game has been made, so that `get` returns at once."""
        return game_key(name, options) in self._games

    def get(self, name: str, options: Options) -> GameTable:
        """Return a game, made if necessary; raises the errors of `SessionPool.prepare`."""
        key = game_key(name, options)
        known = self._games.get(key)
        if known is None:
            with self._making:
                known = self._games.get(key)
                if known is None:
                    idle = [other for other, game in self._games.items() if not game.count]
                    for other in idle[: max(len(idle) - _MOST_IDLE, 0)]:
                        del self._games[other]
                    # The key identifies a level buffer by its `id`; the options of the game keep the buffer alive.
                    known = self._games[key] = self._make(name, dict(options))
        return known

    def _make(self, name: str, options: Options) -> GameTable:
        env_id, spec = text.text_spec_of(name)
        own = {*spec.options, *PARSING, *SESSION_OPTIONS}
        known = {*registry.load(env_id).all_options, *own, "preset", "levels"}
        check_names(env_id, options, known)
        if options.get("parsing") == "lenient" and not self._allows_lenient:
            raise OptionError(
                f"{env_id}: parsing: expected 'strict', got 'lenient'. Leave it out. Only `jaxgym talk`, "
                "`jaxgym serve agentgym` and SessionPool(allows_lenient=True) accept 'lenient'."
            )
        given = {name: value for name, value in options.items() if name in SESSION_OPTIONS}
        session_options = SessionOptions(**resolve(env_id, SESSION_OPTIONS, given))
        others = {name: value for name, value in options.items() if name not in SESSION_OPTIONS}
        if others.get("levels") is None:
            # With the default level buffer of an environment, a held-out seed would select a training level.
            others["levels"] = "fresh"
        has_images = session_options.observation_mode != "text"
        observation = registry.load(env_id).all_options.get("observation")
        if has_images and observation is not None and observation.accepts("pixels"):
            others.setdefault("observation", "pixels")
        env, params, interface = text.make_registered(env_id, **others)
        interface = dataclasses.replace(interface, rewards=session_options.rewards)
        if session_options.on_invalid_reply == "fallback":
            try:
                contract.checked_parsed(env_id, "fallback", interface.fallback(), env.action_space(params))
            except NotImplementedError as error:
                raise OptionError(
                    f"{env_id}: on_invalid_reply: expected 'retry' or 'end', got 'fallback'. To use it, define the "
                    "method fallback of the text interface."
                ) from error
        host = jax.tree.map(np.asarray, params)
        on_device = jax.device_put(host, self._device)
        logic = Logic(env, interface.max_actions)
        if has_images:
            session_options = _with_scale(env_id, session_options, logic.frame_shape(on_device))
        leaves, shape = jax.tree.flatten(host)
        key = (logic, shape, tuple((leaf.shape, leaf.dtype) for leaf in leaves))
        if key not in self._programs:
            self._programs[key] = Programs(logic, on_device, self._capacity, self._device)
        return GameTable(env_id, options, interface, host, session_options, self._programs[key], on_device)


def _with_scale(env_id: str, session_options: SessionOptions, shape: tuple[int, ...] | None) -> SessionOptions:
    """Return the options with the scale for frames of a shape; raise `OptionError` if there are no frames."""
    if shape is None:
        raise OptionError(
            f"{env_id}: observation_mode: expected 'text', got {session_options.observation_mode!r}. For images, the "
            "observation needs a frame, uint8 (H, W, 3), as with observation='pixels'."
        )
    return dataclasses.replace(session_options, image_scale=session_options.image_scale or default_scale(shape))


def game_key(name: str, options: Options) -> Any:
    """Return the cache key of a game; raise `OptionError` if the options are not a mapping with string keys."""
    env_id = text.text_spec_of(name)[0]
    if not isinstance(options, Mapping) or not all(isinstance(option, str) for option in options):
        raise OptionError(f"{name}: options: expected a mapping from names to values, got {reprlib.repr(options)}.")
    objects: list[int] = []

    def plain_or_id(value: Any) -> Any:
        known = plain(value)
        if known is not value:
            return known
        objects.append(id(value))  # beside the text, so that no option's value can look like an object
        return None

    return env_id, json.dumps(dict(options), sort_keys=True, default=plain_or_id), tuple(objects)
