"""Play as text in a terminal or over a pipe, as a language model would."""

import dataclasses
from collections.abc import Iterable
from typing import Any, TextIO

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym import levels, text
from jaxgym.text import ParsedAction, TextInterface, Turn


@dataclasses.dataclass
class _Episode:
    """Running episode.

    Attributes:
        state, scene: The current state and its scene; the scene has NumPy leaves.
        number: Number of replies.
        total: Sum of rewards.
        has_ended: Whether the episode has ended.
    """

    state: Any
    scene: Any
    number: int = 0
    total: float = 0.0
    has_ended: bool = False


class TerminalSession:
    """Text environment that reads replies from a stream and writes texts to a stream."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        """Make the environment of an id or a short name, and its text interface, with options of `jaxgym.text.make`.

        Raises:
            UnknownIdError: If there is no such environment, or it has no text interface.
            OptionError: If an option does not exist or its value is invalid.
        """
        env, params, interface = text.make(name, **{"levels": "fresh", **options})
        self.env, self.params = env, params
        self.interface: TextInterface[Any] = interface
        self._start = jax.jit(lambda seed: _start(env, params, seed))
        self._step = jax.jit(lambda state, action: _step(env, params, state, action))

    def play(self, seed: int, replies: Iterable[str], out: TextIO, *, prompt: str = "") -> None:
        """Play the level of a seed until the episode or the replies end; skip blank replies.

        Args:
            seed: A level seed.
            replies: Replies, such as the lines of a file, read one at a time.
            out: Stream for the system prompt, texts, rewards and the result.
            prompt: Text before each reply, such as `"> "`.
        """
        state, scene = self._start(jnp.uint32(seed))
        episode = _Episode(state, _on_host(scene))
        system_prompt = self.interface.system_prompt(self.params)
        out.write(f"{system_prompt}\n\n{self.interface.open(episode.scene, self.params)}\n\n{prompt}")
        out.flush()
        for reply in replies:
            if not reply.strip():
                continue
            out.write(f"{self._respond(episode, reply)}\n\n")
            if episode.has_ended:
                break
            out.write(prompt)
            out.flush()
        ending = "The episode is over" if episode.has_ended else "No more replies"
        out.write(f"{ending}: reward {episode.total:g} in {episode.number} replies.\n")

    def _respond(self, episode: _Episode, reply: str) -> str:
        """Make the turn of a reply; return the next text with the reward."""
        move = self.interface.parse(reply)
        actions = move.actions if isinstance(move, ParsedAction) else ()
        reward, terminated, truncated = 0.0, False, False
        for action in actions:
            episode.state, *result = self._step(episode.state, np.asarray(action, np.int32))
            scene, gained, terminated, truncated = _on_host(tuple(result))
            episode.scene, reward = scene, reward + float(gained)
            if terminated or truncated:
                break
        episode.number, episode.total = episode.number + 1, episode.total + reward
        episode.has_ended = bool(terminated or truncated)
        turn = Turn(episode.number, move, episode.scene, reward, bool(terminated), bool(truncated))
        return f"{self.interface.respond(turn, self.params)}\n[reward {reward:g}]"


def _on_host(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


def _start(env: Any, params: Any, seed: jax.Array) -> tuple[Any, Any]:
    state = env.initial_state(levels.level_from_seed(env, seed, params), params)
    return state, env.scene(state, params)


def _step(env: Any, params: Any, state: Any, action: jax.Array) -> tuple[Any, Any, jax.Array, jax.Array, jax.Array]:
    # The key of a step is for auto-reset, which `step_env` does not do.
    _, state, reward, terminated, _ = env.step_env(jax.random.key(0), state, action, params)
    return state, env.scene(state, params), reward, terminated, env.is_truncated(state, params)
