"""Games of a pool: the sessions of one environment with one set of options."""

from typing import Any

import jax
import numpy as np

from jaxgym.serve.pool.game_turns import GameTurns, Session
from jaxgym.serve.pool.logic import StepOutput
from jaxgym.serve.pool.programs import Programs
from jaxgym.serve.sessions import SessionOptions
from jaxgym.text import TextInterface

_WARM_UP = 64 + 8


def system_prompt_of(interface: TextInterface[Any], params: Any, session_options: SessionOptions) -> str:
    """Return the system prompt of an interface, with the rules of the session options before the reply format."""
    prompt, reply_format = interface.system_prompt(params), interface.reply_format()
    has_fallback = session_options.on_invalid_reply == "fallback"
    rules = session_options.rules(interface.fallback().text if has_fallback else "")
    if not rules:
        return prompt
    return f"{prompt.removesuffix(reply_format).rstrip()}\n\n{rules}\n\n{reply_format}".rstrip()


class GameTable(GameTurns):
    """Table of states whose rows are sessions, with their programs. The caller holds the pool's lock."""

    def __init__(
        self,
        env_id: str,
        interface: TextInterface[Any],
        params: Any,
        session_options: SessionOptions,
        programs: Programs,
        on_device: Any,
    ):
        """Make the table; `params` are the parameters on the host, `on_device` those on the device."""
        super().__init__(interface, params, session_options, programs, on_device)
        self.env_id = env_id
        self.system_prompt = system_prompt_of(interface, params, session_options)
        self.reply_format = interface.reply_format()
        self.text_version = interface.text_version
        self.count = 0
        self._free = list(range(len(self._table)))[::-1]
        self._warm_up()

    def _warm_up(self) -> None:
        """Make texts for batches of all sizes, so that text interfaces with jitted programs compile them."""
        outside = [len(self._table)] * _WARM_UP
        self._table, rows = self._programs.start(self._table, outside, range(_WARM_UP), self._on_device)
        self._interface.open_all(self._programs.output.view(rows).scene, self.params)

    def take(self, seed: int, used: float) -> Session:
        """Return a new session; the caller has checked that a row is free."""
        self.count += 1
        return Session(self, self._free.pop(), seed, used)

    def give_back(self, session: Session) -> None:
        """Free the row of a session."""
        self.count -= 1
        self._free.append(session.slot)

    def frame(self, session: Session) -> np.ndarray | None:
        """Return the frame of a session's state, or None if its observations are not frames."""
        return self._programs.draw(self._table, session.slot, self._on_device)

    def scene(self, session: Session) -> Any:
        """Return the scene of a session."""
        output: StepOutput = self._programs.output.view(self._rows[[session.slot]])
        return jax.tree.map(lambda leaf: leaf[0], output.scene)
