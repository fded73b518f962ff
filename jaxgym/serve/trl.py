"""Environments of TRL: a class of every text environment for `GRPOTrainer(environment_factory=...)`.

    from jaxgym.serve import trl
    trainer = GRPOTrainer(..., environment_factory=trl.FrozenLakeEnv)
    trainer = GRPOTrainer(..., environment_factory=functools.partial(trl.make, "mortar_mayhem_grid", arena_size=4))

A trainer offers every public method except `reset` and `get_reward` to the model as a tool, so each class has only the
methods of its environment's tools. Their docstrings are part of the prompt. The columns `seed` and `env_config` of a
row set the level and the options.
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from jaxgym import text
from jaxgym.envs.frozen_lake.dialects import DIALECTS
from jaxgym.serve import arguments
from jaxgym.serve.episodes import Episode, options_of
from jaxgym.serve.images import pil_image
from jaxgym.serve.swift import class_name
from jaxgym.text import InvalidReply
from jaxgym.text.replies import FORM

_OVER = "The episode has ended. Make no more tool calls and finish your answer."
_HOW = "Act by calling exactly one tool in each turn. Tools: {tools}."
_FORM = re.compile(rf"{re.escape(FORM)}[^\n]*")
_COMMAND = r"[^<>\[\]{}`\n\r]*"  # the excluded characters could form another answer


def _tool(function: Callable[..., str], pattern: str | None = _COMMAND) -> Callable[..., str]:
    """Make a tool of a method that converts its arguments to a reply.

    The tool makes the turn of that reply and returns the next text. A call with invalid arguments is an invalid reply,
    not an exception: a trainer would show an exception to the model, but the episode would not count the turn. The
    error text of an invalid reply names the call of the tool, not the form of a reply.
    """
    name, schema = function.__name__, arguments.schema_of(function, pattern)
    tool_call = f"Call {arguments.call_text(name, schema)}."

    @functools.wraps(function)
    def call(self: Any, /, *values: Any, **named: Any) -> str:
        names = [*schema["properties"], *(f"value {place}" for place, _ in enumerate(values, 1))]
        placed = dict(zip(names, values, strict=False))
        twice = sorted(placed.keys() & named.keys())
        if twice:
            reason = f"{name}: expected one value for {twice[0]}, got two. Call it with names only."
            return self._reply(InvalidReply(reason), tool_call)
        given = arguments.read(name, schema, placed | named)
        return self._reply(InvalidReply(given) if isinstance(given, str) else function(self, **given), tool_call)

    setattr(call, "schema", schema)  # noqa: B010 a function has no attribute that a type checker knows
    return call


class _TextEnv:
    """Base class; a trainer makes instances once and resets them for each episode."""

    def __init__(self, **options: Any):
        """Make an instance; `reset` validates the options and opens a session.

        Args:
            **options: Options of the environment, of its text interface, and of sessions; the `env_config` of a row
                overrides them.
        """
        self._options = self._played = options
        self._episode: Episode | None = None

    @property
    def episode(self) -> Episode | None:
        """The running or last episode, for reward functions and metrics; None before the first reset."""
        return self._episode

    def reset(self, seed: int | None = None, env_config: Mapping[str, Any] | None = None, **columns: Any) -> Any:
        """Start an episode.

        Args:
            seed: The level seed; if None, the seed of `env_config`, or else a random one.
            env_config: Options; entries that are None are ignored.
            **columns: The other columns of the row; ignored.

        Returns:
            The system prompt with the tools instead of the form of a reply, and the first observation text. In
            sessions with images, a list of content parts: the first image, and this text.

        Raises:
            OptionError: If an entry is not an option or its value is invalid.
            RequestError: If the seed is invalid.
            CapacityError: If the pool is full.
        """
        if self._episode is not None:
            self._episode.close()
        seed = (env_config or {}).get("seed") if seed is None else seed
        self._played = self._options | options_of(env_config)
        self._episode = Episode(_env_id_of(type(self)), seed, self._played)
        opening = self._episode.start()
        form = "" if isinstance(self, _ReplyEnv) else opening.reply_format
        rules = opening.system_prompt.removesuffix(form).rstrip()
        schemas = {name: getattr(self, name).schema for name in _tools_of(type(self))}
        return _parts("\n\n".join(filter(None, (rules, how_to_act(schemas), opening.text))), opening.image)

    def get_reward(self) -> float:
        """Return the sum of the rewards of the episode."""
        result = None if self._episode is None else self._episode.result
        return 0.0 if result is None else float(result.total_reward)

    def _reply(self, reply: str | InvalidReply, tool_call: str) -> Any:
        if self._episode is None:
            self.reset()
        if self._episode is None or self._episode.has_ended:
            raise ValueError(_OVER)
        result = self._episode.step(reply)
        text = result.text
        if result.invalid_reply is not None:
            text = with_tool_call(text, tool_call, keeps_form=isinstance(self, _ReplyEnv))
        return _parts(text, result.image)


def _parts(text: str, image: bytes | None) -> str | list[dict[str, Any]]:
    """Return a text, or with an image the list of content parts that TRL passes to a vision-language model."""
    if image is None:
        return text
    return [{"type": "image", "image": pil_image(image)}, {"type": "text", "text": text}]


def how_to_act(schemas: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the sentences of a prompt that ask for calls of these tools, in place of the form of a reply."""
    return _HOW.format(tools=", ".join(arguments.call_text(*tool) for tool in schemas.items()))


def with_tool_call(answer: str, tool_call: str, *, keeps_form: bool = False) -> str:
    """Return the text after an invalid reply with the call of a tool in place of the form of a reply.

    Args:
        answer: The text.
        tool_call: The sentence that asks for the call.
        keeps_form: Whether the tool takes any reply, so that the form of its argument follows the call.
    """
    if keeps_form:
        return answer.replace(FORM, f"{tool_call.removesuffix('.')} with a message in this format:")
    return _FORM.sub(lambda _: tool_call, answer)


class FrozenLakeEnv(_TextEnv):
    """Frozen Lake with the tool `move`."""

    @_tool
    def move(self, direction: Literal["up", "down", "left", "right"]) -> str:
        """Move one cell on the ice.

        Args:
            direction: Direction of the move: up, down, left or right.

        Returns:
            The result and the lake.
        """
        # The start of the episode raises an error for an unknown dialect.
        asked = DIALECTS.get(self._played.get("dialect", ""), DIALECTS["swift"]).asked.lower()
        return asked.replace("up", direction)


class SudokuEnv(_TextEnv):
    """Sudoku with the tool `place`."""

    @_tool
    def place(self, row: int, column: int, number: int) -> str:
        """Write a number into an empty cell of the board.

        Args:
            row: Row of the cell, from 1 at the top to 9.
            column: Column of the cell, from 1 at the left to 9.
            number: The number to write, from 1 to 9.

        Returns:
            Whether the move was accepted, and the board.
        """
        return f"[{row} {column} {number}]"


class TextCraftEnv(_TextEnv):
    """TextCraft with the tools `get`, `craft` and `inventory`."""

    @_tool
    def get(self, item: str, count: int = 1) -> str:
        """Gather an item that cannot be crafted.

        Args:
            item: Name of the item.
            count: Number of items to gather.

        Returns:
            The result.
        """
        return f"<action>get {count} {item}</action>"

    @_tool
    def craft(self, command: str) -> str:
        """Use one of the crafting commands, with exactly its amounts and inputs.

        Args:
            command: The command, for example "craft 2 flax yarn using 2 flax". You may omit the word craft.

        Returns:
            The result.
        """
        command = command.strip().removeprefix("craft ")
        return f"<action>craft {command}</action>"

    @_tool
    def inventory(self) -> str:
        """List the items in the inventory.

        Returns:
            Each item and its amount.
        """
        return "<action>inventory</action>"


class MemoryCardsEnv(_TextEnv):
    """Memory Cards with the tool `choose`."""

    @_tool
    def choose(self, position: int) -> str:
        """Name the other card with the number of the shown card.

        Args:
            position: Position of the card, from 1.

        Returns:
            Whether the two cards are a pair, and the table.
        """
        return f"<action>{position}</action>"


class _ActEnv(_TextEnv):
    """Environments with lists of actions, with the tool `act`."""

    @_tool
    def act(self, actions: str) -> str:
        """Execute one action, or several in order if the rules allow it.

        Args:
            actions: Names of actions, separated by commas. A number after a name repeats it: "wait 3" is
                three actions.

        Returns:
            The observation after the last action.
        """
        return f"<action>{actions}</action>"


class _ReplyEnv(_TextEnv):
    """Other environments, with the tool `reply`."""

    @functools.partial(_tool, pattern=None)
    def reply(self, message: str) -> str:
        """Send a reply to the environment.

        Args:
            message: The reply, in the format of the rules.

        Returns:
            The next observation.
        """
        return message


_OWN: dict[str, type[_TextEnv]] = {
    "FrozenLake-v0": FrozenLakeEnv,
    "MemoryCards-v0": MemoryCardsEnv,
    "Sudoku-v0": SudokuEnv,
    "TextCraft-v0": TextCraftEnv,
}


def env_class(name: str) -> type[_TextEnv]:
    """Return the class of an environment, by its id or its short name.

    Raises:
        UnknownIdError: If there is no such environment, or it has no text interface.
    """
    return _env_class(text.text_spec_of(name)[0])


def make(name: str, /, **options: Any) -> _TextEnv:
    """Return an instance of the class of a game: `functools.partial(make, name)` is a factory that can be pickled.

    Raises:
        UnknownIdError: If there is no such environment, or it has no text interface.
    """
    return env_class(name)(**options)


@functools.cache
def _env_class(env_id: str) -> type[_TextEnv]:
    if env_id in _OWN:
        return _OWN[env_id]
    base = _ActEnv if "actions_per_turn" in text.text_spec_of(env_id)[1].options else _ReplyEnv
    name = class_name(env_id)
    entries = {"__module__": __name__, "__qualname__": name, "__doc__": f"{env_id} with tools."}
    return cast(type[_TextEnv], type(name, (base,), entries))


def replies_of(name: str, options: Mapping[str, Any]) -> dict[str, Callable[..., str | InvalidReply]]:
    """Return the tools of an environment by name, as functions that convert their arguments to a reply.

    For invalid arguments they return an `InvalidReply`.

    Args:
        name: Id or short name of an environment with a text interface.
        options: The options of its sessions.

    Raises:
        UnknownIdError: If there is no such environment, or it has no text interface.
    """

    class Speaker(env_class(name)):
        def _reply(self, reply: Any, tool_call: str) -> Any:
            return reply

    return {tool: getattr(Speaker(**options), tool) for tool in _tools_of(Speaker)}


def _tools_of(game: type) -> list[str]:
    functions = inspect.getmembers(game, inspect.isfunction)
    return [name for name, _ in functions if not name.startswith("_") and name not in ("reset", "get_reward")]


def _env_id_of(game: type) -> str:
    return next(env_id for env_id in text.text_envs().values() if issubclass(game, _env_class(env_id)))
