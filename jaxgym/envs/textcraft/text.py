"""Text interface of TextCraft: first the crafting commands and the goal, then one line about each command.

The commands and the first words of the responses are those of AgentGym's TextCraft, which language models know:

    get 3 ash log   ─>   Got 3 ash log          craft 4 ash planks using 1 ash log   ─>   Crafted 4 ash planks
"""

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.textcraft.game import MOST_GATHERED, Verb
from jaxgym.envs.textcraft.scene import MOST_CARRIED, NUM_SLOTS, Scene, TextCraftOutcome
from jaxgym.envs.textcraft.world import NONE, NUM_INPUTS, Amount, world
from jaxgym.spec import TextSpec
from jaxgym.text.actions import LAST_COUNTS
from jaxgym.text.forms import ACTION, ANSWER, boxed, fenced, labeled, whole_number
from jaxgym.text.interface import BatchTextInterface
from jaxgym.text.json_forms import Call, call, json_object
from jaxgym.text.reasoning import ascii_lower
from jaxgym.text.replies import FORM, excerpt, find_answer
from jaxgym.text.turns import InvalidReply, ParsedAction, Turns

_MOST_SHORT = 8192
_LONGEST_COMMAND = 256
_LONGEST_NAME = 40

_TOOLS = {"get": ("item", "count"), "craft": ("command",), "inventory": ()}
_FORMS = (ACTION, ANSWER, json_object("action", **_TOOLS), call(**_TOOLS), boxed, fenced, labeled)
_GET = re.compile(r"get ([0-9]{1,9}) ([a-z][a-z ]*)", re.ASCII)
_CRAFT = re.compile(r"craft ([0-9]{1,9}) ([a-z][a-z ]*?) using (.+)", re.ASCII)
_INPUT = re.compile(r"([0-9]{1,9}) ([a-z][a-z ]*)", re.ASCII)
_CLAUSE = re.compile(r"\b(?:get|craft|inventory)\b[^\n.;:!?]{0,256}", re.IGNORECASE | re.ASCII)
_GET_FORM, _CRAFT_FORM = (
    f"{FORM} <action>{command}</action>." for command in ("get 3 flax", "craft 2 flax yarn using 2 flax")
)
_COMMANDS = f"Valid commands: get, craft, inventory. {_GET_FORM}"

_INSTRUCTIONS = """\
Your task is to craft the goal item. The first message lists the crafting commands and the goal. You start with an \
empty inventory.

Commands:
get AMOUNT ITEM: gather an item, for example "get 3 flax". Use this command for every item that you need and that no \
crafting command makes. AMOUNT is a number from 1 to {most}. The supply is unlimited.
craft AMOUNT ITEM using INPUTS: use one of the crafting commands, for example "craft 2 flax yarn using 2 flax". Write \
exactly its amounts and inputs. The inputs must be in your inventory. Each use makes exactly the amount of the \
command. To make more, use the command again.
inventory: {inventory}.

An item that a crafting command makes must be crafted. If you try to gather it, {not_found}. \
Some crafting commands are not needed for the goal.
These inputs are groups of items: {groups}. An item is in a group if the last word of its name is the name of the \
group. Choose one item of the group and use it for the whole amount: 2 planks can be 2 ash planks or 2 elm planks, but \
not one of each. Write the name of the item in your command.
These groups contain only items that you can gather: {gathered}. You can write the name of such a group in your \
command. It means one item of the group: {firsts}.

Reward: 1 for crafting the goal item, 0 for every other command.
The episode ends when you craft the goal item{limit}. Each turn has exactly one command.

"""
_IMAGE_LEGEND = """\
Each observation has an image. Every item has its own icon. From top to bottom, the image shows:
- The goal item in a golden frame; the item of your last command, with the amount that you gathered or crafted; and a \
bar whose color is the result of the command: gray: you looked at the inventory; green: gathered; blue: crafted; \
orange: the item cannot be gathered, only crafted; red: not enough inputs; purple: no room for more of this item; \
brown: nothing happened.
- Your inventory: up to {slots} icons with their amounts.
- One small mark for each crafting command that exists; it is dark if the first message does not list the command."""
_REPLY_FORMAT = (
    "Reply with one command in this format: <action>get 3 flax</action>\n"
    f"This command is only an example. {LAST_COUNTS}"
)


@dataclasses.dataclass(frozen=True)
class TextCraftTextInterface(BatchTextInterface[Scene]):
    """Text interface of TextCraft."""

    text_version: ClassVar[int] = 5

    def system_prompt(self, params: Any) -> str:
        """Return the rules and the reply format."""
        return self._prompt(params, "list the items in your inventory", 'the response begins with "Could not find"')

    def image_prompt(self, params: Any) -> str:
        """Return the rules, the explanation of the image, and the reply format."""
        rules = self._prompt(params, "do nothing; the image shows your inventory", "nothing is gathered")
        return f"{rules.removesuffix(_REPLY_FORMAT)}{self.image_legend(params)}\n\n{_REPLY_FORMAT}"

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        return _IMAGE_LEGEND.format(slots=NUM_SLOTS)

    def _prompt(self, params: Any, inventory: str, not_found: str) -> str:
        steps = int(params.max_steps_in_episode)
        limit = f", or after {steps} commands" if steps > 0 else ""
        told = {"inventory": inventory, "not_found": not_found}
        return _INSTRUCTIONS.format(most=MOST_GATHERED, limit=limit, **told, **_groups()) + _REPLY_FORMAT

    def beside(self, scenes: Scene, params: Any, *, is_first: bool) -> list[str]:
        """Return the crafting commands and the goals, in the first observation only; the frame has no names."""
        goals = np.asarray(scenes.goal).tolist()
        return self.open_all(scenes, params) if is_first else [""] * len(goals)

    def reply_format(self) -> str:
        """Return the form of a reply."""
        return _REPLY_FORMAT

    def describe(self, scene: Scene, params: Any) -> str:
        """Return the recipes in the order of their numbers, the goal, the last outcome, and the whole bag."""
        last = _outcome(int(scene.outcome), int(scene.item), int(scene.amount)) or "Nothing was done yet"
        book = sorted(np.asarray(scene.book).tolist())
        return f"{_task(book, int(scene.goal))}\n{_inventories(np.asarray(scene.inventory)[None])[0]}\nLast: {last}"

    def parse(self, reply: str) -> ParsedAction | InvalidReply:
        """Return the command of a reply, or the reason why it is invalid; see `jaxgym.text.replies`."""
        # Models repeat a few commands, so their parsed forms are cached.
        return (_read_short if len(reply) <= _LONGEST_COMMAND else _read)(reply, self.parsing)

    def fallback(self) -> ParsedAction:
        """Return the action that shows the inventory, which has no effect."""
        return _LOOK

    def reply_of(self, action: Any) -> str:
        """Return the command for an action in its tag; `inventory` for an action without a valid item or way."""
        return f"<action>{_text_of(*action)}</action>"

    def open_all(self, scenes: Scene, params: Any) -> list[str]:
        """Return the crafting commands and the goal of each scene."""
        goals = np.asarray(scenes.goal).tolist()
        return [_task(book, goal) for book, goal in zip(np.asarray(scenes.book).tolist(), goals, strict=True)]

    def respond_all(self, turns: Turns[Scene], params: Any) -> list[str]:
        """Return one line per turn."""
        scenes = turns.scenes
        outcomes, items, amounts = (np.asarray(column) for column in (scenes.outcome, scenes.item, scenes.amount))
        looked = np.flatnonzero(outcomes == TextCraftOutcome.LOOKED)
        carried = dict(zip(looked.tolist(), _inventories(np.asarray(scenes.inventory)[looked]), strict=True))
        rows = zip(turns.actions, outcomes.tolist(), items.tolist(), amounts.tolist(), strict=True)
        return [
            move.reason if isinstance(move, InvalidReply) else carried.get(index) or _outcome(outcome, item, amount)
            for index, (move, outcome, item, amount) in enumerate(rows)
        ]


# Texts.


def _task(book: list[int], goal: int) -> str:
    commands = "\n".join(_recipe_texts()[number] for number in book if number != NONE)
    return f"Crafting commands:\n{commands}\n\nGoal: craft {world().names[goal]}."


@functools.cache
def _recipe_texts() -> tuple[str, ...]:
    return tuple(_craft_text(recipe.output, recipe.inputs) for recipe in world().recipes)


def _craft_text(output: Amount, inputs: tuple[Amount, ...]) -> str:
    """Return a command such as `craft 1 stool using 2 planks, 3 wooden pole`."""
    taken = ", ".join(f"{count} {name}" for count, name in inputs)
    return f"craft {output[0]} {output[1]} using {taken}"


def _text_of(verb: int, index: int, amount: int) -> str:
    """Return the command for an action."""
    if verb == Verb.GET and index < len(world().names):
        return f"get {amount + 1} {world().names[index]}"
    return _way_texts().get(index, _LOOK.text) if verb == Verb.CRAFT else _LOOK.text


@functools.cache
def _way_texts() -> dict[int, str]:
    """Return the crafting commands by the number of the way."""
    return {np.ravel(move.actions[0])[1].item(): move.text for move in _craft_moves().values()}


def _inventories(inventories: np.ndarray) -> list[str]:
    """Return each inventory, such as `Inventory: [flax] (3) ` with the original's blank at the end."""
    names = world().names
    carried = [""] * len(inventories)
    rows, items = np.nonzero(inventories)
    for row, item, count in zip(rows.tolist(), items.tolist(), inventories[rows, items].tolist(), strict=True):
        carried[row] += f"[{names[item]}] ({count}) "
    return [f"Inventory: {things or 'You are not carrying anything.'}" for things in carried]


def _outcome(outcome: int, item: int, amount: int) -> str:
    """Return the text of the last outcome; empty at the start."""
    name = "" if item == NONE else world().names[item]
    return _OUTCOMES[outcome].format(name=name, amount=amount)


_OUTCOMES: Mapping[int, str] = {
    TextCraftOutcome.START: "",
    TextCraftOutcome.LOOKED: "Looked into the inventory",
    TextCraftOutcome.GOT: "Got {amount} {name}",
    TextCraftOutcome.CRAFTED: "Crafted {amount} {name}",
    TextCraftOutcome.NOT_GATHERED: "Could not find {name}: it cannot be gathered, only crafted.",
    TextCraftOutcome.TOO_FEW: "Could not find enough items to craft {name}",
    TextCraftOutcome.NO_ROOM: f"Could not carry more than {MOST_CARRIED} {{name}}",
    TextCraftOutcome.NOTHING: "Nothing happened",
}


# Replies.

_LOOK = ParsedAction(((int(Verb.LOOK), 0, 0),), "inventory")


def _read(reply: str, parsing: str) -> ParsedAction | InvalidReply:
    answer = find_answer(reply, _FORMS)
    if answer is None:
        return InvalidReply(f"Could not execute an empty reply. {_COMMANDS}")
    text = _text_of_call(answer.value) if isinstance(answer.value, Call) else answer.value
    found = _command(text) if isinstance(text, str) else None
    if not isinstance(found, ParsedAction) and answer.is_plain and parsing == "lenient":
        clauses = [_command(clause[0].strip()) for clause in _CLAUSE.finditer(answer.text)]
        found = next((move for move in reversed(clauses) if isinstance(move, ParsedAction)), found)
    if isinstance(found, ParsedAction):
        return found._replace(is_exact=answer.is_exact)
    return found or InvalidReply(f"Could not execute {excerpt(answer.text)}. {_COMMANDS}")


_read_short = functools.lru_cache(_MOST_SHORT)(_read)


def _text_of_call(given: Call) -> str | None:
    """Return the command of a call such as `get(item="flax", count=3)`, or None if an argument has another type."""
    match given.tool, given.arguments:
        case "inventory", _:
            return "inventory"
        case "craft", {"command": str(command)}:
            return f"craft {ascii_lower(command).strip().removeprefix('craft ')}"
        case "get", {"item": str(item), "count": count}:
            number = whole_number(count)
            return None if number is None else f"get {number} {item}"
    return None


def _command(text: str) -> ParsedAction | InvalidReply | None:
    """Return the command of a text, or the reason why it is invalid, or None if it is not a command."""
    line = " ".join(ascii_lower(text).split()) if len(text) <= _LONGEST_COMMAND else ""
    if line == "inventory":
        return _LOOK
    got = _GET.fullmatch(line)
    if got:
        return _get(int(got[1]), got[2])
    crafted = _CRAFT.fullmatch(line)
    if crafted:
        return _craft(int(crafted[1]), crafted[2], crafted[3])
    verb = line.partition(" ")[0]
    if verb == "craft":
        return InvalidReply(
            f"Could not extract recipe from {excerpt(line)}: expected craft AMOUNT ITEM using INPUTS. {_CRAFT_FORM}"
        )
    if verb == "get":
        return InvalidReply(f"Could not execute {excerpt(line)}: expected an amount and an item. {_GET_FORM}")
    return None


def _is_gathered(group: str) -> bool:
    """Return whether all items of a group are gathered."""
    whole = world()
    return all(item < whole.num_gathered for item in whole.tags[group])


def _groups() -> dict[str, str]:
    """Return all groups, the groups of gathered items, and what the names of the latter mean, for the prompt."""
    groups, names = world().tags, world().names
    gathered = list(filter(_is_gathered, groups))
    firsts = (f"{group} means {names[groups[group][0]]}" for group in gathered)
    return {"groups": ", ".join(groups), "gathered": ", ".join(gathered), "firsts": ", ".join(firsts)}


def _item(name: str) -> int | InvalidReply:
    """Return the item of a name, or the reason why there is none.

    The name of a group of items, such as log, means its first item if all of them are gathered: the crafting commands
    contain only the group, so the model does not see the items. In other groups, the item must be named.
    """
    whole = world()
    if name in whole.items:
        return whole.items[name]
    if name in whole.tags:
        if _is_gathered(name):
            return whole.tags[name][0]
        known = ", ".join(whole.names[item] for item in whole.tags[name])
        return InvalidReply(f"Could not find {name}: expected one of {known}.")
    return InvalidReply(
        f"Could not find {name if 0 < len(name) <= _LONGEST_NAME else excerpt(name)}: there is no such item."
    )


def _get(amount: int, name: str) -> ParsedAction | InvalidReply:
    item = _item(name)
    if isinstance(item, InvalidReply):
        return item
    name = world().names[item]
    if not 1 <= amount <= MOST_GATHERED:
        return InvalidReply(f"Could not get {amount} {name}: expected an amount from 1 to {MOST_GATHERED}.")
    return ParsedAction(((int(Verb.GET), item, amount - 1),), f"get {amount} {name}")


def _craft(amount: int, name: str, inputs: str) -> ParsedAction | InvalidReply:
    made = _item(name)
    if isinstance(made, InvalidReply):
        return made
    taken = list[tuple[int, int]]()
    for part in inputs.split(",")[: NUM_INPUTS + 1]:
        read = _INPUT.fullmatch(part.strip())
        if read is None:
            return InvalidReply(
                f"Wrong item format: expected an amount and an item, such as 2 flax, got {excerpt(part)}."
            )
        item = _item(read[2])
        if isinstance(item, InvalidReply):
            return item
        taken.append((item, int(read[1])))
    # An input that is split over two entries matches no recipe.
    move = _craft_moves().get((made, amount, tuple(sorted(taken))))
    if move is None:
        return InvalidReply(
            f"Could not find a valid recipe for {amount} {world().names[made]} using {excerpt(inputs)}: expected "
            "exactly the amounts and inputs of a crafting command."
        )
    return move


@functools.cache
def _craft_moves() -> dict[tuple[int, int, tuple[tuple[int, int], ...]], ParsedAction]:
    """Return the action of each way, by output, amount, and its inputs and their amounts in ascending order."""
    whole, ways, moves = world(), world().ways, dict[tuple[int, int, tuple[tuple[int, int], ...]], ParsedAction]()
    columns = (ways.outputs, ways.amounts, ways.inputs, ways.counts)
    for way, (output, amount, sources, counts) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        taken = [(item, count) for item, count in zip(sources, counts, strict=True) if count]
        text = _craft_text((amount, whole.names[output]), tuple((count, whole.names[item]) for item, count in taken))
        moves[output, amount, tuple(sorted(taken))] = ParsedAction(((int(Verb.CRAFT), way, 0),), text)
    return moves


TEXT = TextSpec(lambda env, _: TextCraftTextInterface(env.env_id))
