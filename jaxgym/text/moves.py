"""Replies that name actions one after another, such as `<action>right 5, up</action>`."""

import dataclasses
import functools
import re
from collections.abc import Mapping

from jaxgym.text.replies import answers, excerpt, last_phrase, words_of
from jaxgym.text.words import Action, Move, Refusal

_SEPARATOR = re.compile(r"[,;|/\n+>.&]|\bthen\b|\band\b", re.IGNORECASE | re.ASCII)
_FILLERS = frozenset(
    words_of(
        "action actions by go going i is move moving my now please step steps the tile tiles time times to walk will x"
    )
)
_MOST_DIGITS = 9
# More than a reply may ever give; what follows is read as one part.
_MOST_PARTS = 128
_Run = tuple[str, int]


@dataclasses.dataclass(frozen=True, eq=False)
class MoveSet:
    """The actions of a game by name, and how replies name them.

    Attributes:
        actions: Actions by name; the first one does nothing.
        synonyms: Names by further phrases for them, as `jaxgym.text.replies.words_of` spells these.
        most: The most actions that one reply may give.
        example: The name of an action that serves as an example.
    """

    actions: Mapping[str, Action]
    synonyms: Mapping[str, str]
    most: int
    example: str

    @functools.cached_property
    def phrases(self) -> dict[str, str]:
        """Names by all phrases for them."""
        return {**{" ".join(words_of(name)): name for name in self.actions}, **self.synonyms}

    @functools.cached_property
    def _replies(self) -> dict[str, Move]:
        """What single actions in the asked form mean: most replies, or their ends, are these."""
        return {f"<action>{name}</action>": self._move([(name, 1)], is_exact=True) for name in self.actions}

    @property
    def idle(self) -> Move:
        """The move that does nothing."""
        return self._move([(next(iter(self.actions)), 1)], is_exact=True)

    def reply_of(self, action: Action) -> str:
        """Returns the name of an action in its tag."""
        return f"<action>{next(name for name, known in self.actions.items() if known == action)}</action>"

    def help(self) -> str:
        """Returns the form of a reply, for instructions."""
        lines = [
            f"Actions: {', '.join(self.actions)}.",
            f"Reply with one action in this form: <action>{self.example}</action>",
        ]
        if self.most > 1:
            last = [name for name in self.actions if name != self.example][-1]
            lines[1] = (
                f"Reply in this form: <action>{self.example}</action>. One reply may give up to {self.most} actions, "
                f"separated by commas, and repeat one by a number: <action>{self.example} {self.most - 1}, "
                f"{last}</action>. You then see only what follows the last one."
            )
        return "\n".join(lines)

    def parse(self, reply: str) -> Move | Refusal:
        """Returns the actions that a reply names, at most `most` of them, or why there are none."""
        known = self._replies.get(reply)
        if known is not None:
            return known
        read = ""
        for answer in answers(reply):
            runs = self._runs(answer.text)
            if runs is None and answer.is_prose:
                name = last_phrase(answer.text, self.phrases)
                runs = None if name is None else [(name, 1)]
            if runs:
                total = sum(count for _, count in runs)
                return self._too_many(total) if total > self.most else self._move(runs, is_exact=answer.is_exact)
            read = read or answer.text.strip()
        form = f"reply with <action>{self.example}</action>, or another of {', '.join(self.actions)}."
        return Refusal(f"{excerpt(read)} is no action: {form}" if read else f"No action was given: {form}")

    def _too_many(self, total: int) -> Refusal:
        most = "one action" if self.most == 1 else f"at most {self.most} actions"
        return Refusal(f"{total} actions are too many: a reply takes {most}, so send fewer.")

    def _move(self, runs: list[_Run], *, is_exact: bool) -> Move:
        merged = list[_Run]()
        for name, count in runs:
            if merged and merged[-1][0] == name:
                count += merged.pop()[1]
            merged.append((name, count))
        actions = tuple(self.actions[name] for name, count in merged for _ in range(count))
        text = ", ".join(name if count == 1 else f"{name} {count}" for name, count in merged)
        return Move(actions, text, is_exact)

    def _runs(self, text: str) -> list[_Run] | None:
        """Returns the named actions and how often each is made, or None where something else is said."""
        runs = list[_Run]()
        for part in _SEPARATOR.split(text, maxsplit=_MOST_PARTS):
            found = self._part(part)
            if found is None:
                return None
            runs += found
        return [(name, count) for name, count in runs if count] or None

    def _part(self, part: str) -> list[_Run] | None:
        said = [word for word in words_of(part) if word not in _FILLERS]
        counts = [_count(word) for word in said if word.isdigit()]
        name = self.phrases.get(" ".join(word for word in said if not word.isdigit()))
        if name is not None and len(counts) <= 1 and (said[0].isdigit() or said[-1].isdigit() or not counts):
            return [(name, counts[0] if counts else 1)]
        runs = list[_Run]()
        for word in said:
            if word.isdigit():
                if not runs:
                    return None
                runs[-1] = (runs[-1][0], _count(word))
            elif word in self.phrases:
                runs.append((self.phrases[word], 1))
            else:
                return None
        return runs


def _count(digits: str) -> int:
    return int(digits[:_MOST_DIGITS])
