"""Replies to games: valid ones in every form, texts to put around them, and mutations of them."""

# ruff: noqa: RUF001 other scripts are what the parsers have to tell apart

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.text.oracle import REASONING, Action, Family

FORMS: dict[str, str] = {
    "action": "<action>{}</action>",
    "answer": "<answer>{}</answer>",
    "json": '{{"action": "{}"}}',
    "boxed": "\\boxed{{{}}}",
    "fence": "```\n{}\n```",
    "line": "Action: {}",
    "next line": "Action:\n{}",
    "bracket": "[{}]",
    "bare": "{}",
}
"""The forms of a reply, with a place for the action."""


class Said(NamedTuple):
    """A valid reply.

    Attributes:
        form: Its form.
        reply: The reply.
        action: Its action.
    """

    form: str
    reply: str
    action: Action


class Game(NamedTuple):
    """Parts from which replies to a game are made.

    Attributes:
        family: Family of the oracle.
        legal: Actions by their words.
        illegal: Words that are no action.
        forms: Forms that the game's parser must read.
        more: Valid replies in the game's own forms, by their words.
        worse: Invalid replies in such forms.
    """

    family: Family
    legal: dict[str, Action]
    illegal: tuple[str, ...]
    forms: tuple[str, ...] = tuple(FORMS)
    more: dict[str, Action] = {}  # noqa: RUF012 nothing writes to it
    worse: tuple[str, ...] = ()


def legal_replies(game: Game) -> Iterator[Said]:
    """Yield every valid action in every form."""
    for words, action in game.legal.items():
        for form in game.forms:
            yield Said(form, FORMS[form].format(words), action)
    for reply, action in game.more.items():
        yield Said("own", reply, action)


PROSE = (
    "Let me think about the next turn.",
    "I should not go up, and left is a hole.",
    "None is red.",
    "Going forward would be deadly.",
    "F and up was safe before.",
    "I looked at 3 cells. There are 2 options in 1 of them.",
    "R1: 4 3 2 | 7 5 8",
    "I could get 1 flax, or craft nothing.",
    "So: wait or turn right?",
    "我想一想。",
    "Erst nach rechts, dann nach oben; 4 5 6.",
)
"""Sentences with actions and numbers that are no answer."""


def around(said: Said) -> Iterator[str]:
    """Yield texts with the same meaning as a reply: reasoning before it, and prose around an explicit form."""
    yield said.reply
    yield f"\n {said.reply} \n"
    for opening, closing in REASONING:
        yield f"{opening}up? [1 2 3] <action>down</action>{closing}{said.reply}"
        yield f"{opening}\nno\n{closing}\n\n{said.reply}"
    yield f"left, or [9 9 9]</think>{said.reply}"
    yield (
        "<|channel|>analysis<|message|>[1 2 3] or <action>left</action>?<|end|><|start|>assistant"
        f"<|channel|>final<|message|>{said.reply}<|return|>"
    )
    if said.form not in ("bare", "bracket"):
        for sentence in PROSE:
            yield f"{sentence}\n{said.reply}"
            if said.form != "own":
                # A line directly below the one with the action would make it ambiguous.
                below = "\n\n" if said.form in ("line", "next line") else "\n"
                yield f"{said.reply}{below}{sentence}"


def beside(game: Game) -> Iterator[str]:
    """Yield replies whose explicit answer is not an action, with actions in the prose around it."""
    for reply, sentence in itertools.product(game.worse, PROSE):
        yield reply
        yield f"{sentence}\n{reply}"
        yield f"{reply}\n{sentence}"
    sentences = itertools.cycle(PROSE)
    for words in game.illegal:
        for form in game.forms:
            answer = FORMS[form].format(words)
            for sentence in itertools.islice(sentences, 3):
                yield f"{sentence}\n{answer}"
                if form != "bare":
                    yield f"{answer}\n{sentence}"


# Mutations.

_SIGNS = "<>[]{}()\"'`\\|:;,.!?*_-=/#$ \t\n\0\u200b\u00a0abcdlnprtuwx0123456789"
_DIGITS = ("０", "٠", "०", "𝟎", "𝟘")
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_CIRCLED = "⓪①②③④⑤⑥⑦⑧⑨"
_TWINS = {"s": "ſ", "k": "\u212a", "a": "а", "e": "е", "o": "о", "p": "р", "i": "ı", "l": "ｌ", "u": "ｕ", "f": "ﬀ"}

Mutation = Callable[[random.Random, Game, str], str]


def _cut(chance: random.Random, parts: list[str]) -> tuple[int, int]:
    first = chance.randrange(len(parts))
    return first, min(len(parts), first + chance.randint(1, 3))


def _edit(chance: random.Random, parts: list[str], fresh: Callable[[], str]) -> list[str]:
    """Insert, delete, double, replace or swap parts of a text."""
    if not parts:
        return [fresh()]
    first, last = _cut(chance, parts)
    kind = chance.randrange(5)
    if kind == 0:
        return [*parts[:first], fresh(), *parts[first:]]
    if kind == 1:
        return parts[:first] + parts[last:]
    if kind == 2:
        return parts[:last] + parts[first:]
    if kind == 3:
        return [*parts[:first], fresh(), *parts[first + 1 :]]
    return parts[:first] + parts[first : first + 2][::-1] + parts[first + 2 :]


def letters(chance: random.Random, game: Game, reply: str) -> str:
    """Edit characters."""
    del game
    return "".join(_edit(chance, list(reply), lambda: chance.choice(_SIGNS)))


def tokens(chance: random.Random, game: Game, reply: str) -> str:
    """Edit words."""
    pool = [*game.legal, *game.illegal, "not", "or", "<action>", "</answer>", "Action:", "[", "}", "0", "-1", "2.0"]
    return " ".join(_edit(chance, reply.split(" "), lambda: chance.choice(pool)))


def prose(chance: random.Random, game: Game, reply: str) -> str:
    """Put a sentence before or after the reply."""
    del game
    sentence, between = chance.choice(PROSE), chance.choice(["\n", " ", "\n\n"])
    return f"{sentence}{between}{reply}" if chance.random() < 0.5 else f"{reply}{between}{sentence}"


def reasoning(chance: random.Random, game: Game, reply: str) -> str:
    """Put reasoning with another answer before, after or around it, closed or not."""
    opening, closing = chance.choice(REASONING)
    thought = _form(chance, game, chance.choice([*game.legal, *game.illegal]))
    return chance.choice(
        [
            f"{opening}{thought}{closing}{reply}",
            f"{opening}{thought}{reply}",
            f"{thought}{closing}{reply}",
            f"{reply}{opening}{thought}{closing}",
            f"{reply}{opening}{thought}",
            f"{reply}{closing}{thought}",
            f"{opening}{reply}{closing}",
            f"{opening}{reply}",
            f"<|channel|>analysis<|message|>{thought}<|end|><|start|>assistant<|channel|>final<|message|>{reply}",
            f"<|channel|>analysis<|message|>{reply}<|end|><|start|>assistant<|channel|>final<|message|>{thought}",
            f"<|channel|>analysis<|message|>{reply}",
            f"<|channel|>commentary<|message|>{reply}<|end|>",
        ]
    )


def scripts(chance: random.Random, game: Game, reply: str) -> str:
    """Write digits and letters in other scripts."""
    del game
    zero = chance.choice(_DIGITS)
    digits = chance.choice([_SUPERSCRIPTS, _CIRCLED, "".join(chr(ord(zero) + number) for number in range(10))])
    swapped = {str(number): digits[number] for number in range(10)} | _TWINS
    return "".join(swapped.get(sign, sign) if chance.random() < 0.3 else sign for sign in reply)


def case(chance: random.Random, game: Game, reply: str) -> str:
    """Change upper and lower case."""
    del game
    return chance.choice([reply.upper(), reply.title(), reply.swapcase(), reply.capitalize()])


def second(chance: random.Random, game: Game, reply: str) -> str:
    """Add another answer, valid or not, of a higher or lower form."""
    other = _form(chance, game, chance.choice([*game.legal, *game.illegal, *game.illegal]))
    between = chance.choice(["\n", " ", "\n\n", " or ", ". No: ", "|"])
    return f"{other}{between}{reply}" if chance.random() < 0.5 else f"{reply}{between}{other}"


def numbers(chance: random.Random, game: Game, reply: str) -> str:
    """Replace a number by something else, or by another number."""
    del game
    places = [place for place, sign in enumerate(reply) if sign.isdigit()]
    if not places:
        return reply
    place = chance.choice(places)
    other = chance.choice(
        ["0", "10", "12", "1.0", "2.5", "-1", "+3", "1e0", "0x1", "true", "null", "one", '"2"', "1_0"]
    )
    return reply[:place] + other + reply[place + 1 :]


_NO_NUMBERS = ("0", "10", "12", "1.0", "2.5", "-1", "+3", "1e0", "0x1", "true", "null", "one", '"2"', "1_0")

MUTATIONS: tuple[Mutation, ...] = (letters, letters, tokens, prose, reasoning, scripts, case, second, numbers)


def _form(chance: random.Random, game: Game, words: str) -> str:
    return FORMS[chance.choice(game.forms)].format(words)


def mutated(chance: random.Random, game: Game, replies: list[Said]) -> str:
    """Return a valid reply with one to three mutations."""
    reply = chance.choice(replies).reply
    for mutate in chance.choices(MUTATIONS, k=chance.randint(1, 3)):
        reply = mutate(chance, game, reply)
    return reply


def meaning(game: Game, made: Any) -> Action:
    """Return a parsed move as an action of the oracle.

    Args:
        game: The game.
        made: A `ParsedAction` of its parser.
    """
    if game.family.name == "textcraft":
        return next(iter(game.family.read(made.text)), ("unknown", made.text))
    if game.family.name == "sudoku":
        return tuple(number + 1 for number in made.actions[0]) if len(made.actions) == 1 else made.actions
    return tuple(made.actions)
