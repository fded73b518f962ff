"""Replies that name a list of actions, such as `<action>right 5, up</action>`."""

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from jaxgym.text.forms import ACTION, ANSWER, boxed, fenced, labeled
from jaxgym.text.json_forms import Call, Form, call, json_object
from jaxgym.text.reasoning import ascii_lower
from jaxgym.text.replies import FORM, find_answer, invalid, last_phrase, words_of
from jaxgym.text.turns import Action, InvalidReply, ParsedAction

LAST_COUNTS = "If your reply contains several such tags, only the last one counts."
"""End of a reply format that asks for a tag."""

_SEPARATOR = re.compile(r"[,;\n]\s{0,8}(?:then\b)?|\bthen\b", re.ASCII)
_ITEM = re.compile(r"((?:go|move) )?([^0-9]{1,40}?)(?: ([0-9]{1,9})(?: (?:times|steps))?)?", re.ASCII)
_DIRECTION = re.compile(r"(?:up|down|left|right|forwards?|ahead)(?:[ _-]?(?:up|down|left|right))?|[\u2190-\u2193]")
_BLANKS = re.compile(r"[ \t\r]+")
_MOST_PARTS = 256
_LONGEST_PART = 64
_Run = tuple[str, int]


@dataclasses.dataclass(frozen=True, eq=False)
class ActionSet:
    """The actions of a game by name, and the grammar of replies that name them.

    An answer is a list of actions, separated by a comma, a semicolon, a line break or "then". Each action is a name or
    a synonym, optionally after "go" or "move", and optionally followed by the number of times it is repeated, in ASCII
    digits. Names are matched in any case. The parts of a name may be joined by a blank (if the name has one), a hyphen,
    an underscore or nothing.

    Attributes:
        actions: Actions by name.
        synonyms: Names by further phrases for them.
        most: Maximum number of actions in one reply.
        example: The name of the action that serves as an example.
    """

    actions: Mapping[str, Action]
    synonyms: Mapping[str, str]
    most: int
    example: str

    @functools.cached_property
    def phrases(self) -> dict[str, str]:
        """Names by accepted spelling."""
        pairs = [*((name, name) for name in self.actions), *self.synonyms.items()]
        return {spelling: name for phrase, name in pairs for spelling in _spellings(phrase)}

    @functools.cached_property
    def _replies(self) -> dict[str, ParsedAction]:
        """Parsed replies of single actions in the form of the prompt, which are the most common replies."""
        return {f"<action>{name}</action>": self._move([(name, 1)], is_exact=True) for name in self.actions}

    @functools.cached_property
    def _forms(self) -> tuple[Form, ...]:
        tools = {"act": ("actions",)}
        return (ACTION, ANSWER, json_object("action", "actions", **tools), call(**tools), boxed, fenced, labeled)

    @property
    def idle(self) -> ParsedAction:
        """The parsed action that does nothing."""
        return self._move([(next(iter(self.actions)), 1)], is_exact=True)

    def reply_of(self, action: Action) -> str:
        """Return the reply that names an action, in its tag."""
        return f"<action>{next(name for name, known in self.actions.items() if known == action)}</action>"

    def help(self) -> str:
        """Return the part of the system prompt that lists the actions and describes the form of a reply."""
        turn = "Each turn has exactly one action."
        if self.most > 1:
            turn = (
                f"Each turn has 1 to {self.most} actions. They are executed in order, and you see only the observation "
                "after the last one."
            )
        return f"Actions: {', '.join(self.actions)}. Each action takes one step. {turn}\n{self.reply_format()}"

    def reply_format(self) -> str:
        """Return the part of the system prompt that describes the form of a reply."""
        reply = f"Reply in this format: <action>{self.example}</action>"
        if self.most > 1:
            last = [name for name in self.actions if name != self.example][-1]
            reply += (
                f"\nSeparate actions with commas. A number after an action repeats it. This reply has {self.most} "
                f"actions: <action>{self.example} {self.most - 1}, {last}</action>"
            )
        return f"{reply}\n{LAST_COUNTS}"

    def parse(self, reply: str, parsing: str = "strict") -> ParsedAction | InvalidReply:
        """Return the actions that a reply names, at most `most` of them, or why it is invalid.

        Args:
            reply: Any string.
            parsing: `"strict"`, or `"lenient"` to search a reply without an explicit answer for its last phrase.
        """
        known = self._replies.get(reply)
        if known is not None:
            return known
        answer = find_answer(reply, self._forms)
        runs = None if answer is None else self._runs_of(answer.value)
        if runs is None and parsing == "lenient" and answer is not None and answer.is_plain:
            spelled = {" ".join(words_of(phrase)): name for phrase, name in self.phrases.items()}
            name = last_phrase(answer.text, spelled)
            runs = None if name is None else [(name, 1)]
        if answer is None or runs is None:
            expected = invalid(answer, ", ".join(self.actions), f"<action>{self.example}</action>")
            return InvalidReply(f"Invalid reply: {expected}")
        total = sum(count for _, count in runs)
        return self._too_many(total) if total > self.most else self._move(runs, is_exact=answer.is_exact)

    def _too_many(self, total: int) -> InvalidReply:
        most = "one action" if self.most == 1 else f"at most {self.most} actions"
        form = f"{FORM} <action>{self.example}</action>."
        return InvalidReply(f"Invalid reply: expected {most}, got {total}. Send fewer actions in one reply. {form}")

    def _move(self, runs: list[_Run], *, is_exact: bool) -> ParsedAction:
        merged = list[_Run]()
        for name, count in runs:
            if merged and merged[-1][0] == name:
                count += merged.pop()[1]
            merged.append((name, count))
        actions = tuple(self.actions[name] for name, count in merged for _ in range(count))
        text = ", ".join(name if count == 1 else f"{name} {count}" for name, count in merged)
        return ParsedAction(actions, text, is_exact)

    def _runs_of(self, value: Any) -> list[_Run] | None:
        """Return the named actions and their counts, or None if the answer is not a list of actions."""
        if isinstance(value, Call):
            value = value.arguments["actions"]
        parts = value[: self.most + 1] if isinstance(value, list) else [value]
        runs = list[_Run]()
        for part in parts:
            for run in self._read(part) if isinstance(part, str) else [None]:
                if run is None or len(runs) == _MOST_PARTS:
                    return None
                runs.append(run)
        return runs or None

    def _read(self, text: str) -> Iterator[_Run | None]:
        for part in _SEPARATOR.split(ascii_lower(text), maxsplit=_MOST_PARTS):
            short = _BLANKS.sub(" ", part).strip(" ") if len(part) <= _LONGEST_PART else ""
            item = _ITEM.fullmatch(short)
            name = self.phrases.get(item[2]) if item else None
            if item and item[1] and name and (name.startswith("turn") or not _DIRECTION.fullmatch(item[2])):
                name = None  # "go left" is no turn, and "go drop" is no action
            count = int(item[3] or 1) if item else 0
            yield (name, count) if name is not None and count else None


def _spellings(phrase: str) -> list[str]:
    parts = re.split("[ -]", phrase)
    joined = [joint.join(parts) for joint in ("-", "_", "")]
    return [*joined, " ".join(parts)] if " " in phrase else joined
