"""Play as text in a terminal or over a pipe, as a language model would."""

from collections.abc import Iterable
from typing import Any, TextIO

from jaxgym.serve.pool import SessionPool


class TerminalSession:
    """Text environment that reads replies from a stream and writes texts to a stream."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        """Make the environment of an id or a short name, with options of `jaxgym.text.make` and of sessions.

        Raises:
            UnknownIdError: If there is no such environment, or it has no text interface.
            OptionError: If an option does not exist or its value is invalid.
        """
        self._pool = SessionPool(capacity=1, allows_lenient=True)
        self._name, self._options = name, {"rewards": "environment", **options}
        self._pool.prepare(name, self._options)

    def play(self, seed: int, replies: Iterable[str], out: TextIO, *, prompt: str = "") -> None:
        """Play the level of a seed until the episode or the replies end; skip blank replies.

        Args:
            seed: A level seed.
            replies: Replies, such as the lines of a file, read one at a time.
            out: Stream for the system prompt, texts, rewards and the result.
            prompt: Text before each reply, such as `"> "`.
        """
        opening = self._pool.open(self._name, seed, self._options)
        out.write(f"{opening.system_prompt}\n\n{opening.text}\n\n{prompt}")
        out.flush()
        ending, total, number = "No more replies", 0.0, 0
        for reply in filter(str.strip, replies):
            result = self._pool.step_one(opening.id, reply)
            total, number = result.total_reward, result.number
            out.write(f"{result.text}\n[reward {result.reward:g}]\n\n")
            if result.terminated or result.truncated:
                ending = "The episode is over"
                break
            out.write(prompt)
            out.flush()
        self._pool.close([opening.id])
        out.write(f"{ending}: reward {total:g} in {number} replies.\n")
