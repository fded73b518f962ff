"""Play as text in a terminal or over a pipe, as a language model would."""

from collections.abc import Iterable
from typing import Any, TextIO

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym import text
from jaxgym.errors import OptionError
from jaxgym.serve.pool.programs import Logic
from jaxgym.serve.sessions import SESSION_OPTIONS
from jaxgym.text import ParsedAction, Turn, contract


class TerminalSession:
    """Text environment that reads replies from a stream and writes texts to a stream."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        """Make the environment of an id or a short name, and its text interface, with options of `jaxgym.text.make`.

        Raises:
            UnknownIdError: If there is no such environment, or it has no text interface.
            OptionError: If an option does not exist or its value is invalid.
        """
        session_option = next(iter(options.keys() & SESSION_OPTIONS.keys()), None)
        if session_option is not None:
            raise OptionError(
                f"{name}: expected an option of the environment or of its text interface, got {session_option!r}. An "
                "option of a session needs a session pool, a server or `jaxgym rollout`."
            )
        env, self.params, self.interface = text.make(name, **{"levels": "fresh", **options})
        self._space = env.action_space(self.params)
        logic = Logic(env, max_actions=1)
        self._start, self._move = jax.jit(logic.start), jax.jit(logic.move)

    def play(self, seed: int, replies: Iterable[str], out: TextIO, *, prompt: str = "") -> None:
        """Play the level of a seed until the episode or the replies end; skip blank replies.

        Args:
            seed: A level seed.
            replies: Replies, such as the lines of a file, read one at a time.
            out: Stream for the system prompt, texts, rewards and the result.
            prompt: Text before each reply, such as `"> "`.
        """
        interface, params = self.interface, self.params
        state, output = self._start(jnp.uint32(seed), params)
        scene = jax.tree.map(np.asarray, output.scene)
        opening = contract.checked_text(interface.env_id, "open", interface.open(scene, params))
        out.write(f"{interface.system_prompt(params)}\n\n{opening}\n\n{prompt}")
        out.flush()
        number, total, terminated, truncated = 0, 0.0, False, False
        for number, reply in enumerate(filter(str.strip, replies), start=1):
            move, reward = contract.parse(interface, reply, self._space), 0.0
            for action in move.actions if isinstance(move, ParsedAction) else ():
                state, output = self._move(state, jnp.int32(1), jnp.asarray([action], jnp.int32), params)
                output = jax.tree.map(np.asarray, output)
                scene, reward = output.scene, reward + float(output.reward)
                terminated, truncated = bool(output.terminated), bool(output.truncated)
                if terminated or truncated:
                    break
            total += reward
            turn = Turn(number, move, scene, reward, terminated, truncated)
            response = contract.checked_text(interface.env_id, "respond", interface.respond(turn, params))
            out.write(f"{response}\n[reward {reward:g}]\n\n")
            if terminated or truncated:
                break
            out.write(prompt)
            out.flush()
        ending = "The episode is over" if terminated or truncated else "No more replies"
        out.write(f"{ending}: reward {total:g} in {number} {'reply' if number == 1 else 'replies'}.\n")
