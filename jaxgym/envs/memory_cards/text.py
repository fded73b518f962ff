"""Text interface of Memory Cards: a table of cards, one card number per turn."""

import dataclasses
import re
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.memory_cards.scene import NUM_BITS, Scene, num_columns
from jaxgym.spec import TextSpec
from jaxgym.text.actions import LAST_COUNTS
from jaxgym.text.forms import FORMS, whole_number
from jaxgym.text.interface import TRUNCATED, BatchTextInterface
from jaxgym.text.json_forms import Call
from jaxgym.text.reasoning import ascii_lower
from jaxgym.text.replies import find_answer, invalid
from jaxgym.text.turns import Action, InvalidReply, ParsedAction, Turns

_EXAMPLE = "<action>2</action>"
_HIDDEN, _REMOVED = "?", "-"
_WIDTH = 4
_POSITION = re.compile(r"(?:card |position )?([0-9]{1,3})", re.ASCII)


@dataclasses.dataclass(frozen=True)
class MemoryCardsTextInterface(BatchTextInterface[Scene]):
    """Text interface of Memory Cards.

    Attributes:
        num_pairs: Number of pairs.
    """

    text_version: ClassVar[int] = 2

    num_pairs: int

    def system_prompt(self, params: Any) -> str:
        """Return the rules, the explanation of the table and the reply format."""
        legend = (
            "Observation: a table of the cards, with the position of the first card of each row at the left. "
            f"{_HIDDEN} is a card that lies face down, {_REMOVED} a removed card, and a number is the shown card."
        )
        return self._prompt(legend, params)

    def image_prompt(self, params: Any) -> str:
        """Return the rules, the explanation of the image and the reply format."""
        return self._prompt(self.image_legend(params), params)

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        columns = num_columns(2 * self.num_pairs)
        highest = 2 ** (NUM_BITS - 1)
        return (
            f"Each observation has an image of the cards in rows of {columns}, with position 1 at the top left. A card "
            "that lies face down is blue. A removed card leaves an empty place. The shown card is white, and dark "
            f"squares show its number. They have {NUM_BITS} places in two rows of three, which are worth {highest}, "
            f"{highest // 2} and {highest // 4} in the upper row and {highest // 8}, 2 and 1 in the lower row. The "
            "number is the sum of the places with a square."
        )

    def _prompt(self, legend: str, params: Any) -> str:
        num_cards, limit = 2 * self.num_pairs, int(params.max_steps_in_episode)
        ends = f", and after {limit} steps" if limit > 0 else ""
        return (
            f"{num_cards} cards lie on a table, at the positions 1 to {num_cards}. They have the numbers 1 to "
            f"{self.num_pairs}, each on two cards. In each turn, one card is shown. Name the position of the other "
            "card with the same number. If you are right, both cards are removed. If not, the shown card is turned "
            "over again. Then a random card is shown, which can be the same one. You do not see the number of the card "
            "that you name, so remember the cards that were shown.\n\n"
            "Reward: 0 if you are right; -1 if you name a wrong card, the shown card or a removed card.\n"
            f"The episode ends when all cards are removed{ends}.\n\n"
            f"{legend}\n\n{self.reply_format()}"
        )

    def reply_format(self) -> str:
        """Return the form of a reply."""
        return f"Reply with the position of one card in this format: {_EXAMPLE}\n{LAST_COUNTS}"

    def open_all(self, scenes: Scene, params: Any) -> list[str]:
        """Return the tables of B scenes."""
        return [self._table(faces) for faces in np.asarray(scenes.faces).tolist()]

    def _table(self, faces: list[int]) -> str:
        columns = num_columns(len(faces))
        names = {0: _HIDDEN, self.num_pairs + 1: _REMOVED}
        rows = [
            f"{first + 1:>{_WIDTH}}:"
            + "".join(f"{names.get(face, face):>{_WIDTH}}" for face in faces[first : first + columns])
            for first in range(0, len(faces), columns)
        ]
        shown = [place for place, face in enumerate(faces, start=1) if face not in names]
        said = [f"The card at position {place} is shown. Its number is {faces[place - 1]}." for place in shown]
        return "\n".join([*rows, *said])

    def respond_all(self, turns: Turns[Scene], params: Any) -> list[str]:
        """Return the results of B turns, and the tables."""
        ends = zip(turns.terminated.tolist(), turns.truncated.tolist(), turns.rewards.tolist(), strict=True)
        tables = self.open_all(turns.scenes, params)
        return [
            "\n".join(filter(None, (_result(move, reward), table, _ending(terminated=terminated, truncated=truncated))))
            for move, table, (terminated, truncated, reward) in zip(turns.actions, tables, ends, strict=True)
        ]

    def parse(self, reply: str) -> ParsedAction | InvalidReply:
        """Return the card of a reply, or why it is invalid."""
        answer = find_answer(reply, FORMS)
        number = None if answer is None else _position(answer.value)
        if answer is None or number is None or not 1 <= number <= 2 * self.num_pairs:
            return InvalidReply(
                f"Invalid reply: {invalid(answer, f'the positions 1 to {2 * self.num_pairs}', _EXAMPLE)}"
            )
        return ParsedAction((number - 1,), str(number), answer.is_exact)

    def fallback(self) -> ParsedAction:
        """Return the first card."""
        return ParsedAction((0,), "1")

    def reply_of(self, action: Action) -> str:
        """Return the position of a card in the format of the system prompt."""
        return f"<action>{np.asarray(action).item() + 1}</action>"


def _position(value: Any) -> int | None:
    """Return the position that an answer names, or None if it is none."""
    if isinstance(value, str):
        found = _POSITION.fullmatch(ascii_lower(value).strip())
        return int(found[1]) if found else None
    return None if isinstance(value, Call | dict) else whole_number(value)


def _result(move: ParsedAction | InvalidReply, reward: float) -> str:
    if isinstance(move, InvalidReply):
        return move.reason
    return f"You chose: {move.text}. {'It is a pair.' if reward == 0 else 'It is not a pair.'}"


def _ending(*, terminated: bool, truncated: bool) -> str:
    return "All cards are removed. The episode has ended." if terminated else TRUNCATED if truncated else ""


TEXT = TextSpec(lambda env, _: MemoryCardsTextInterface(env.env_id, env.num_pairs))
