"""TextCraft in words: the book of crafting commands and the goal once, then a line about what each command did.

The commands and the first words of the answers are those that language models know from AgentGym's TextCraft:

    get 3 ash log   ─>   Got 3 ash log          craft 4 ash planks using 1 ash log   ─>   Crafted 4 ash planks
"""

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxgym.envs.text_world.textcraft import MOST_GATHERED, Verb
from jaxgym.envs.text_world.textcraft_scene import MOST_CARRIED, Outcome, Scene
from jaxgym.envs.text_world.textcraft_world import NONE, NUM_INPUTS, Amount, world
from jaxgym.text.replies import answers, excerpt, without_thoughts
from jaxgym.text.words import Move, Refusal, Turn, Turns, Words

_SHORT = 256
_MOST_SHORT = 8192
_MOST_DIGITS = 9
_LONGEST_NAME = 40

_COMMAND = re.compile(
    r"[^A-Za-z]{0,16}(?:(?:final |next |my )?action[^A-Za-z]{1,8})?\b(get|craft|inventory)\b(.*)",
    re.IGNORECASE | re.ASCII,
)
_VERB = re.compile(r"\b(?:get|craft|inventory)\b", re.IGNORECASE | re.ASCII)
_CLAUSE = re.compile(r"[^\n.;:!?]{1,400}")
_MOST_VERBS = 32
_UNSPOKEN = re.compile(r"[^a-z0-9,]+", re.ASCII)
_BETWEEN = re.compile(r",| and ", re.ASCII)
_NEGATIVE = re.compile(r"(?<![A-Za-z0-9])[-−][0-9]")
_AMOUNT = re.compile(r"(?:([0-9]+|an?) ?x? )?(.*)", re.ASCII)
_ARTICLES = ("a", "an")
_FORM = "answer with get, craft or inventory, as in get 1 flax."

_INSTRUCTIONS = """\
You craft things. You are given crafting commands and a goal; craft the goal.

Commands:
get 3 flax: gather so many of an item that is not crafted, 1 to {most} at a time; there is no end of it.
craft 2 flax yarn using 2 flax: craft, with exactly the inputs of one of the crafting commands.
inventory: list what you carry.

An input that is no item, such as planks, is any one item whose name ends with that word, such as ash planks: name the \
item in your command. What the goal takes and no crafting command makes is gathered. Some of the crafting commands are \
of no use for the goal. The episode ends when the goal is crafted{limit}.

Reply with one command in this form: <action>get 3 flax</action>"""


def build(env: Any, values: Mapping[str, Any]) -> "TextCraftWords":
    """Returns the words of an environment."""
    del values
    return TextCraftWords(env.env_id)


@dataclasses.dataclass(frozen=True)
class TextCraftWords(Words[Scene]):
    """The words of TextCraft."""

    def instructions(self, params: Any) -> str:
        """Returns the rules and the form of a reply."""
        steps = int(params.max_steps_in_episode)
        limit = f", or after {steps} commands" if steps > 0 else ""
        return _INSTRUCTIONS.format(most=MOST_GATHERED, limit=limit)

    def describe(self, scene: Scene, params: Any) -> str:
        """Returns the book in the order of the recipes' numbers, the goal, what was done last, and all of the bag."""
        del params
        last = _outcome(int(scene.outcome), int(scene.item), int(scene.amount)) or "Nothing was done yet"
        book = sorted(np.asarray(scene.book).tolist())
        return f"{_task(book, int(scene.goal))}\n{_inventory(scene)}\nLast: {last}"

    def parse(self, reply: str) -> Move | Refusal:
        """Returns the command that a reply gives; of several in prose the last one, in a tag or fence the first."""
        # Models mostly say the same few things, and nothing else about a reply is remembered.
        return _read_short(reply) if len(reply) <= _SHORT else _read(reply)

    def fallback(self) -> Move:
        """Returns a look into the bag, which changes nothing."""
        return _LOOK

    def reply_of(self, action: Any) -> str:
        """Returns the command for an action in its tag; a look into the bag for one of no item or way."""
        return f"<action>{_text_of(*action)}</action>"

    def open(self, scene: Scene, params: Any) -> str:
        """Returns the crafting commands in the order of the book, and the goal."""
        del params
        return _task(np.asarray(scene.book).tolist(), int(scene.goal))

    def respond(self, turn: Turn[Scene], params: Any) -> str:
        """Returns one line: what the command did, or why there was none."""
        del params
        scene = turn.scene
        if isinstance(turn.move, Refusal):
            return turn.move.reason
        if int(scene.outcome) == Outcome.LOOKED:
            return _inventory(scene)
        return _outcome(int(scene.outcome), int(scene.item), int(scene.amount))

    def open_all(self, scenes: Scene, params: Any) -> list[str]:
        """Returns the crafting commands and the goal of each."""
        del params
        goals = np.asarray(scenes.goal).tolist()
        return [_task(book, goal) for book, goal in zip(np.asarray(scenes.book).tolist(), goals, strict=True)]

    def respond_all(self, turns: Turns[Scene], params: Any) -> list[str]:
        """Returns a line for each turn."""
        del params
        scenes = turns.scenes
        outcomes, items, amounts = (np.asarray(column) for column in (scenes.outcome, scenes.item, scenes.amount))
        looked = np.flatnonzero(outcomes == Outcome.LOOKED)
        carried = dict(zip(looked.tolist(), _inventories(np.asarray(scenes.inventory)[looked]), strict=True))
        rows = zip(turns.moves, outcomes.tolist(), items.tolist(), amounts.tolist(), strict=True)
        return [
            move.reason if isinstance(move, Refusal) else carried.get(lane) or _outcome(outcome, item, amount)
            for lane, (move, outcome, item, amount) in enumerate(rows)
        ]


# What is told.


def _task(book: list[int], goal: int) -> str:
    commands = "\n".join(_recipe_texts()[number] for number in book if number != NONE)
    return f"Crafting commands:\n{commands}\n\nGoal: craft {world().names[goal]}."


@functools.cache
def _recipe_texts() -> tuple[str, ...]:
    return tuple(_craft_text(recipe.output, recipe.inputs) for recipe in world().recipes)


def _craft_text(output: Amount, inputs: tuple[Amount, ...]) -> str:
    """Returns a command such as `craft 1 stool using 2 planks, 3 wooden pole`."""
    taken = ", ".join(f"{count} {name}" for count, name in inputs)
    return f"craft {output[0]} {output[1]} using {taken}"


def _text_of(verb: int, index: int, amount: int) -> str:
    """Returns the command for an action."""
    if verb == Verb.GET and index < len(world().names):
        return f"get {amount + 1} {world().names[index]}"
    return _way_texts().get(index, _LOOK.text) if verb == Verb.CRAFT else _LOOK.text


@functools.cache
def _way_texts() -> dict[int, str]:
    """Returns the commands to craft, by the number of the way."""
    return {np.ravel(move.actions[0])[1].item(): move.text for move in _craft_moves().values()}


def _inventory(scene: Scene) -> str:
    return _inventories(np.asarray(scene.inventory)[None])[0]


def _inventories(inventories: np.ndarray) -> list[str]:
    """Returns what each player carries, such as `Inventory: [flax] (3) ` with the blank of the original at its end."""
    names = world().names
    carried = [""] * len(inventories)
    rows, items = np.nonzero(inventories)
    for row, item, count in zip(rows.tolist(), items.tolist(), inventories[rows, items].tolist(), strict=True):
        carried[row] += f"[{names[item]}] ({count}) "
    return [f"Inventory: {things or 'You are not carrying anything.'}" for things in carried]


def _outcome(outcome: int, item: int, amount: int) -> str:
    """Returns what the last action led to; nothing at the start."""
    name = "" if item == NONE else world().names[item]
    return _OUTCOMES[outcome].format(name=name, amount=amount)


_OUTCOMES: Mapping[int, str] = {
    Outcome.START: "",
    Outcome.LOOKED: "Looked into the inventory",
    Outcome.GOT: "Got {amount} {name}",
    Outcome.CRAFTED: "Crafted {amount} {name}",
    Outcome.NOT_GATHERED: "Could not find {name}: it has to be crafted.",
    Outcome.TOO_FEW: "Could not find enough items to craft {name}",
    Outcome.NO_ROOM: f"Could not carry more than {MOST_CARRIED} {{name}}",
    Outcome.NOTHING: "Nothing happened",
}


# What is understood.

_LOOK = Move(((int(Verb.LOOK), 0, 0),), "inventory")


def _read(reply: str) -> Move | Refusal:
    """Returns the command of a reply, in time linear in its length."""
    whole = _command(reply) if "\n" not in reply else None
    if isinstance(whole, Move) and _is_bare(reply, whole):
        return whole
    for answer in answers(reply):
        found = _last(answer.text) if answer.is_prose else _first(answer.text)
        if isinstance(found, Move):
            return found._replace(is_exact=found.is_exact and answer.is_exact)
        if found is not None:
            return found
    if isinstance(whole, Move):
        return whole
    said = without_thoughts(reply).strip()
    return Refusal(f"Could not execute {excerpt(said)}: {_FORM}" if said else f"Could not execute nothing: {_FORM}")


_read_short = functools.lru_cache(_MOST_SHORT)(_read)


def _is_bare(reply: str, move: Move) -> bool:
    """Whether a reply is a command and nothing else, but for case, blanks and how many are said to be made."""
    verb = move.text.partition(" ")[0]
    return move.is_exact and _spoken(reply).startswith(verb)


def _first(text: str) -> Move | Refusal | None:
    """Returns the command of the first line that is one, of a text that was meant as the answer."""
    return next((found for line in text.splitlines() if (found := _command(line)) is not None), None)


def _last(text: str) -> Move | Refusal | None:
    """Returns the last command that prose names; for want of one, why the last line that is meant as one fails."""
    failed = None
    for verb in reversed(list(_VERB.finditer(text))[-_MOST_VERBS:]):
        clause = _CLAUSE.match(text, verb.start())
        found = _command(clause[0]) if clause else None
        if isinstance(found, Move) and (found.is_exact or found.text != _LOOK.text):
            return found
        if isinstance(found, Refusal) and failed is None and text[: verb.start()][-1:] in ("", "\n"):
            failed = found
    return failed


def _command(line: str) -> Move | Refusal | None:
    """Returns what a line asks for, or None if it is no command."""
    found = _COMMAND.match(line)
    if found is None:
        return None
    verb, rest = found[1].lower(), _spoken(found[2])
    if verb == "inventory":
        return _LOOK._replace(is_exact=not rest)
    if _NEGATIVE.search(found[2]):
        return Refusal(f"Could not execute {verb}: amounts are from 1 up, without a sign.")
    return _get(rest) if verb == "get" else _craft(rest)


def _spoken(text: str) -> str:
    """Returns a text as lower-case letters, digits and commas with single blanks between them."""
    return _UNSPOKEN.sub(" ", text.lower()).strip(" ,")


def _counted(text: str) -> tuple[int | None, str]:
    """Returns the amount that stands before a name, None if there is none, and the name."""
    found = _AMOUNT.fullmatch(text)
    number, name = (found[1], found[2]) if found else (None, text)
    if number is None:
        return None, name
    return 1 if number in _ARTICLES else int(number) if len(number) <= _MOST_DIGITS else 10**_MOST_DIGITS, name


def _item(name: str) -> int | Refusal:
    """Returns the item of a name, in the singular or plural, or why there is none.

    The name of a tag stands for its first item where all of them are gathered, since a model that is not told what
    there is can't do better than `get 1 log`.
    """
    whole = world()
    for spelt in (name, f"{name}s", name.removesuffix("s")):
        if spelt in whole.items:
            return whole.items[spelt]
    if name in whole.tags:
        if all(item < whole.num_gathered for item in whole.tags[name]):
            return whole.tags[name][0]
        known = ", ".join(whole.names[item] for item in whole.tags[name])
        return Refusal(f"Could not find {name}: name one of {known}.")
    return Refusal(
        f"Could not find {name if 0 < len(name) <= _LONGEST_NAME else excerpt(name)}: there is no such item."
    )


def _get(rest: str) -> Move | Refusal:
    amount, name = _counted(rest)
    if not name:
        return Refusal("Could not execute get: name an amount and an item, as in get 1 flax.")
    item = _item(name)
    if isinstance(item, Refusal):
        return item
    is_exact, amount = amount is not None and name in world().items, 1 if amount is None else amount
    name = world().names[item]
    if not 1 <= amount <= MOST_GATHERED:
        return Refusal(f"Could not get that many of {name}: ask for 1 to {MOST_GATHERED} at a time.")
    return Move(((int(Verb.GET), item, amount - 1),), f"get {amount} {name}", is_exact)


def _craft(rest: str) -> Move | Refusal:
    output, using, inputs = f" {rest} ".partition(" using ")
    name = _counted(output.strip())[1]
    if not using or not inputs.strip():
        return Refusal(
            f"Could not extract recipe from {excerpt(f'craft {rest}')}: name its inputs, "
            "as in craft 2 flax yarn using 2 flax."
        )
    made = _item(name)
    if isinstance(made, Refusal):
        return made
    parts = [part.strip() for part in _BETWEEN.split(inputs)]
    taken = list[tuple[int, int]]()
    for part in parts[: NUM_INPUTS + 1]:
        count, source = _counted(part)
        if count is None or not source:
            return Refusal(f"Wrong item format: {excerpt(part)}: give an amount and an item, such as 2 flax.")
        item = _item(source)
        if isinstance(item, Refusal):
            return item
        taken.append((item, count))
    # An input that is split over two entries fits no recipe.
    moves = _craft_moves()
    move = moves.get((made, tuple(sorted(taken))))
    if move is None:
        return Refusal(
            f"Could not find a valid recipe for {world().names[made]} using {excerpt(inputs.strip())}: "
            "give exactly the inputs of a crafting command, amounts included."
        )
    is_exact = name in world().items and all(_counted(part)[1] in world().items for part in parts)
    return move._replace(is_exact=is_exact)


@functools.cache
def _craft_moves() -> dict[tuple[int, tuple[tuple[int, int], ...]], Move]:
    """Returns the move of each way, by what it makes, and its inputs and their counts in ascending order."""
    whole, ways, moves = world(), world().ways, dict[tuple[int, tuple[tuple[int, int], ...]], Move]()
    columns = (ways.outputs, ways.amounts, ways.inputs, ways.counts)
    for way, (output, amount, sources, counts) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        taken = [(item, count) for item, count in zip(sources, counts, strict=True) if count]
        text = _craft_text((amount, whole.names[output]), tuple((count, whole.names[item]) for item, count in taken))
        moves[output, tuple(sorted(taken))] = Move(((int(Verb.CRAFT), way, 0),), text)
    return moves
