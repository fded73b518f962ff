"""Scheduler of ms-swift for Sudoku: a board with hints in every message, and five reward components.

It plays on the pool of this process, or on an OpenEnv server if the `env_config` of a row has a `base_url`. It reads
texts only, so the rewards of both are equal; they are the components of `jaxgym.envs.sudoku.text`.
"""

import importlib
import re
import types
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxgym.envs.sudoku import text as sudoku_text
from jaxgym.envs.sudoku.board_text import board_texts, hint_texts
from jaxgym.errors import OptionError
from jaxgym.serve.episodes import Episode, options_of
from jaxgym.serve.openenv.client import OpenEnvScheduler
from jaxgym.serve.sessions import SESSION_OPTIONS
from jaxgym.text import ParsedAction

_SIZE = 9
_ROW = re.compile(r"\s*R[1-9](.*)")
_CELL = re.compile(r"[.1-9]")
_REJECTED = ("invalid", "error", "cannot", "already", "violation", "lost")
_AGAIN = ("please resubmit", "avoid penalties")
_SHOWN = 10
_PARTS = ("empty_cell", "valid_move", "repetition", "progress", "correct")
_APART = ("name", "seed", "base_url", "reset_kwargs", "system_message")
_FIXED = {"hints", *SESSION_OPTIONS} - {"max_turns"}
_PARSER = sudoku_text.SudokuTextInterface("Sudoku-v0", flat_actions=False, hints=True, rewards="components")
_NOTES = (
    "\nA reply from which no move can be read ends the episode with a reward of -1. A rejected move does not end it."
)
_NO_MOVE = -1.0
_ENDS = re.compile(r"^The episode (?:also )?ends .*$", re.MULTILINE)


def parse_board(text: str) -> np.ndarray | None:
    """Return the last board of a text, int8 (9, 9) with 0 for empty cells, or None if it has none."""
    rows = [_CELL.findall(found[1])[:_SIZE] for line in text.splitlines() if (found := _ROW.match(line))]
    rows = [row for row in rows if len(row) == _SIZE][-_SIZE:]
    if len(rows) < _SIZE:
        return None
    return np.asarray([[int(cell.replace(".", "0")) for cell in row] for row in rows], np.int8)


class SudokuTextTracker:
    """Reward tracker of one game that reads its texts, and writer of the messages.

    Attributes:
        parts: The five latest reward components.
    """

    def __init__(self, text: str):
        """Start with the first observation text."""
        self._text = text
        self._board = parse_board(text)
        self._start = self._most = self._filled()
        self._made = Counter[str]()
        self._tried: list[int] = []
        self._sums = dict.fromkeys(_PARTS[:3], 0.0)
        self._accepted = 0
        self.parts = dict.fromkeys(_PARTS, 0.0)

    def _filled(self) -> int:
        return 0 if self._board is None else int(np.count_nonzero(self._board))

    def first_message(self) -> str:
        """Return the board and hints, or the text if it has no board."""
        return self._text if self._board is None else self._shown()

    def next_message(self) -> str:
        """Return the progress, the board and hints."""
        n = self._accepted
        shown = self._text if self._board is None else self._shown()
        return f"Step {n}. Progress: {n} cells filled.\n\nBoard:\n{shown}"

    def _shown(self) -> str:
        boards = np.asarray(self._board)[None]
        tried = np.full((1, _SHOWN), -1, np.int32)
        newest = list(dict.fromkeys(reversed(self._tried)))[:_SHOWN]
        tried[0, : len(newest)] = newest
        return board_texts(boards)[0] + hint_texts(boards, tried)[0]

    def note(self, move: ParsedAction, text: str, reward: float) -> dict[str, float]:
        """Record a turn and return the five reward components.

        Args:
            move: The parsed reply of `SudokuTextInterface`, without flat actions.
            text: All texts of the episode, or the text of this turn.
            reward: The environment's reward of this turn.
        """
        said = text[len(self._text) :] if text.startswith(self._text) and len(text) > len(self._text) else text
        self._text = text
        row, column, digit = np.ravel(move.actions[0]).tolist()
        is_empty = None if self._board is None else bool(self._board[row, column] == 0)
        lowered = said.lower()
        is_valid = is_empty is not False and not any(word in lowered for word in _REJECTED)
        earlier = self._made[move.text]
        self._made[move.text] += 1
        self._sums["empty_cell"] += sudoku_text.empty_cell_score(is_empty)
        self._sums["valid_move"] += sudoku_text.valid_move_score(
            is_valid, is_new=earlier == 0, asks_again=any(phrase in lowered for phrase in _AGAIN)
        )
        self._sums["repetition"] += sudoku_text.repetition_score(earlier)
        self._tried.append((row * _SIZE + column) * _SIZE + digit)
        self._accepted += is_valid and earlier == 0
        board = parse_board(said) if is_valid else None
        if board is not None:
            self._board = board
            self._most = max(self._most, self._filled())
        moves = self._made.total()
        means = {name: total / moves for name, total in self._sums.items()}
        self.parts = {**means, "progress": sudoku_text.progress_score(self._most, self._start), "correct": reward}
        return self.parts


class LocalSudoku:
    """Episode on the pool of this process, with the coroutines of `OpenEnvWrapper`."""

    def __init__(self, env_config: Mapping[str, Any]):
        """Make an episode of an `env_config` with `seed`, options of the environment, and `max_turns`."""
        self._episode = Episode("sudoku", env_config.get("seed"), options_of(env_config, _APART))

    async def areset(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start the episode; return the first observation, with the system prompt, and an empty dict."""
        opening = await self._episode.astart()
        return {"messages": [{"content": opening.text}], "prompt": opening.system_prompt}, {}

    async def astep(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool, dict[str, Any]]:
        """Make the turn of `message`; return observation, reward, whether the episode has ended, and an empty dict."""
        result = await self._episode.astep(str(action["message"]))
        return {"prompt": result.text}, float(result.is_solved), self._episode.has_ended, {}

    async def aclose(self) -> None:
        """Close the session."""
        self._episode.close()


def observed_text(observation: Any) -> str:
    """Return the text of an observation: its first message, or its prompt, or the whole observation."""
    if isinstance(observation, Mapping):
        messages = observation.get("messages")
        if messages and isinstance(messages, Sequence) and isinstance(messages[0], Mapping):
            return str(messages[0].get("content", ""))
        if observation.get("prompt"):
            return str(observation["prompt"])
    return str(observation)


def rules_with_limits(prompt: str) -> str:
    """Return the rules of this scheduler, with the sentences of a system prompt that state when the episode ends."""
    rules = _PARSER.system_prompt(types.SimpleNamespace(max_steps_in_episode=0))
    ends = "\n".join(_ENDS.findall(prompt))
    return (_ENDS.sub(lambda _: ends, rules) if ends else rules) + _NOTES


class SudokuScheduler(OpenEnvScheduler):
    """Scheduler of Sudoku in this process, or on an OpenEnv server if the `env_config` of a row has a `base_url`.

    The reward of a turn is the change of the sum of the five components, so `total_reward` is the latest sum; a perfect
    game has 4. An invalid reply ends the trajectory with reward -1.
    """

    def __init__(self, *args: Any, **more: Any):
        """Make a scheduler as ms-swift does."""
        super().__init__(*args, **more)
        self._trackers: dict[str, SudokuTextTracker] = {}

    def _create_env(self, env_config: dict[str, Any]) -> Any:
        fixed = [name for name in env_config if name in _FIXED]
        if fixed:
            raise OptionError(
                f"Sudoku-v0: expected an option of this scheduler, got {fixed[0]!r}. Leave it out: the scheduler has "
                "its own hints, rewards and penalties."
            )
        if not env_config.get("base_url"):
            return LocalSudoku(env_config)
        if "seed" in env_config:
            given = env_config.get("reset_kwargs", {})
            env_config["reset_kwargs"] = given if "split" in given else {"seed": env_config["seed"], **given}
        return super()._create_env(env_config)

    def _first_messages(self, uuid: str, observation: Any, system: str | None) -> list[dict[str, str]]:
        self._trackers[uuid] = tracker = SudokuTextTracker(observed_text(observation))
        rules = system or rules_with_limits(self.rules_of(observation))
        return [{"role": "system", "content": rules}, {"role": "user", "content": tracker.first_message()}]

    async def _take_turn(self, uuid: str, text: str) -> tuple[bool, dict[str, Any]]:
        move, tracker, trajectory = _PARSER.parse(text), self._trackers[uuid], self._envs[uuid]
        has_ended = True
        if isinstance(move, ParsedAction):
            observation, reward, has_ended, _ = await trajectory.env.astep({"message": move.text})
            parts = tracker.note(move, observed_text(observation), float(reward))
            score = sum(parts.values())
        else:
            score = trajectory.total_reward + _NO_MOVE
        trajectory.step_rewards.append(score - trajectory.total_reward)
        trajectory.total_reward, trajectory.text = score, tracker.next_message()
        return bool(has_ended), {f"{name}_reward": part for name, part in tracker.parts.items()}

    async def _close_and_remove(self, uuid: str) -> None:
        self._trackers.pop(uuid, None)
        await super()._close_and_remove(uuid)


def register(name: str = "jaxgym_sudoku_scheduler") -> None:
    """Register the scheduler with ms-swift; raise `ImportError` if it can't be imported."""
    importlib.import_module("swift.rollout.multi_turn").multi_turns[name] = SudokuScheduler
