"""A scheduler of ms-swift for Sudoku: a board with hints in every message, and a score in five parts.

It plays on the pool of this process or, where a row's `env_config` has a `base_url`, on an OpenEnv server. It reads
texts alone, so both are scored alike; the scores are those of `jaxgym.envs.sudoku.text`.
"""

import asyncio
import importlib
import re
import types
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxgym.envs.sudoku import text as words
from jaxgym.serve.episodes import Episode, options_of
from jaxgym.serve.messages import content_text, usage_of
from jaxgym.text import Move

_SIZE = 9
_ROW = re.compile(r"\s*R[1-9](.*)")
_CELL = re.compile(r"[.1-9]")
_REFUSED = ("invalid", "error", "cannot", "already", "violation", "lost")
_AGAIN = ("please resubmit", "avoid penalties")
_SHOWN = 10
_PARTS = ("empty_cell", "valid_move", "repetition", "progress", "correct")
_APART = ("name", "seed", "base_url", "reset_kwargs", "system_message")
_PARSER = words.SudokuWords("Sudoku-v0", flat_actions=False, hints=False)
_NOTES = "\nBelow the board are moves that you have tried, and cells with one or few options."
_NO_MOVE = -1.0


def parse_board(text: str) -> np.ndarray | None:
    """Returns the last board of a text, int8 (9, 9) with 0 for empty cells, or None if it has none."""
    rows = [_CELL.findall(found[1])[:_SIZE] for line in text.splitlines() if (found := _ROW.match(line))]
    rows = [row for row in rows if len(row) == _SIZE][-_SIZE:]
    return (
        np.asarray([[int(cell.replace(".", "0")) for cell in row] for row in rows], np.int8)
        if len(rows) == _SIZE
        else None
    )


class Referee:
    """Scores one game by its texts, and writes the messages.

    Attributes:
        parts: The five parts of the latest score.
    """

    def __init__(self, text: str):
        """Starts from the first text."""
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
        """Returns the board and hints, or the text as it is where it has no board."""
        return self._text if self._board is None else self._shown()

    def next_message(self) -> str:
        """Returns how far the game is, the board and hints."""
        n = self._accepted
        shown = self._text if self._board is None else self._shown()
        return f"Step {n}. Progress: {n} cells filled.\n\nBoard:\n{shown}"

    def _shown(self) -> str:
        boards = np.asarray(self._board)[None]
        tried = np.full((1, _SHOWN), -1, np.int32)
        newest = list(dict.fromkeys(reversed(self._tried)))[:_SHOWN]
        tried[0, : len(newest)] = newest
        return words.board_texts(boards)[0] + words.hint_texts(boards, tried)[0]

    def note(self, move: Move, text: str, reward: float) -> dict[str, float]:
        """Takes note of a move and the text that followed; returns the five parts of the score.

        Args:
            move: The move, of `SudokuWords` without flat actions.
            text: All that the game has said, or what it has said since.
            reward: Its reward of this turn.
        """
        said = text[len(self._text) :] if text.startswith(self._text) and len(text) > len(self._text) else text
        self._text = text
        row, column, digit = np.ravel(move.actions[0]).tolist()
        is_empty = None if self._board is None else bool(self._board[row, column] == 0)
        lowered = said.lower()
        is_valid = is_empty is not False and not any(word in lowered for word in _REFUSED)
        earlier = self._made[move.text]
        self._made[move.text] += 1
        self._sums["empty_cell"] += words.empty_cell_score(is_empty)
        self._sums["valid_move"] += words.valid_move_score(
            is_valid, is_new=earlier == 0, asks_again=any(phrase in lowered for phrase in _AGAIN)
        )
        self._sums["repetition"] += words.repetition_score(earlier)
        self._tried.append((row * _SIZE + column) * _SIZE + digit)
        self._accepted += is_valid and earlier == 0
        board = parse_board(said) if is_valid else None
        if board is not None:
            self._board = board
            self._most = max(self._most, self._filled())
        moves = self._made.total()
        means = {name: total / moves for name, total in self._sums.items()}
        self.parts = {**means, "progress": words.progress_score(self._most, self._start), "correct": reward}
        return self.parts


class LocalSudoku:
    """A game on the pool of this process, with the calls of ms-swift's `OpenEnvWrapper`."""

    def __init__(self, env_config: Mapping[str, Any]):
        """Takes `seed` and options of the environment and of sessions."""
        self._episode = Episode("sudoku", env_config.get("seed"), options_of(env_config, _APART))

    def reset(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the first text as an observation, and nothing."""
        return {"prompt": self._episode.start().text}, {}

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool, dict[str, Any]]:
        """Makes the move of `message`; returns observation, the environment's reward, whether it ended, and nothing."""
        outcome = self._episode.step(str(action["message"]))
        return {"prompt": outcome.text}, float(outcome.is_solved), self._episode.has_ended, {}

    def close(self) -> None:
        """Gives the session back."""
        self._episode.close()


def observed_text(observation: Any) -> str:
    """Returns the text of an observation: its first message, else its prompt, else all of it."""
    if isinstance(observation, Mapping):
        messages = observation.get("messages")
        if messages and isinstance(messages, Sequence) and isinstance(messages[0], Mapping):
            return str(messages[0].get("content", ""))
        if observation.get("prompt"):
            return str(observation["prompt"])
    return str(observation)


if TYPE_CHECKING:
    _Base = Any
else:
    _Base = object


class SudokuHooks(_Base):
    """The hooks, to be mixed into ms-swift's `OpenEnvScheduler`.

    A reply without a move ends the trajectory with the last score less 1. `total_reward` is the latest score, not a sum
    over turns; 4 is that of a flawless game.

    Attributes:
        max_concurrent_envs: Games that are started at a time.
        env_config_defaults: Entries for rows that don't have them.
    """

    max_concurrent_envs: int = 64
    env_config_defaults: Mapping[str, Any] = types.MappingProxyType({})

    def __init__(self, *args: Any, **kwargs: Any):
        """Makes a scheduler as ms-swift does."""
        super().__init__(*args, **kwargs)
        self._referees: dict[str, Referee] = {}
        self._turns: dict[str, list[dict[str, Any]]] = {}

    def _create_env(self, env_config: dict[str, Any]) -> Any:
        return super()._create_env(env_config) if env_config.get("base_url") else LocalSudoku(env_config)

    async def _close_and_remove(self, uuid: str) -> None:
        self._referees.pop(uuid, None)
        self._turns.pop(uuid, None)
        await super()._close_and_remove(uuid)

    async def on_trajectory_start(self, requests: Sequence[Any]) -> None:
        """Starts a game for each request, and puts rules, board and hints into its messages."""
        room = asyncio.Semaphore(self.max_concurrent_envs)

        async def start(request: Any) -> None:
            async with room:
                await self._start(request)

        await asyncio.gather(*map(start, requests))

    async def _start(self, request: Any) -> None:
        uuid = request.uuid
        if uuid in self._envs:
            await self._close_and_remove(uuid)
        row = (getattr(request, "data_dict", None) or {}).get("env_config") or {}
        entries = {**self.env_config_defaults, **{name: value for name, value in row.items() if value is not None}}
        if "seed" in entries and entries.get("base_url"):
            given = entries.get("reset_kwargs", {})
            entries["reset_kwargs"] = given if "split" in given else {"seed": entries["seed"], **given}
        env = self._create_env(entries)
        observation, _ = await asyncio.to_thread(env.reset)
        referee = Referee(observed_text(observation))
        unlimited = types.SimpleNamespace(max_steps_in_episode=0)
        rules = entries.get("system_message") or _PARSER.instructions(unlimited) + _NOTES
        request.messages = [
            {"role": "system", "content": rules},
            {"role": "user", "content": referee.first_message()},
        ]
        self._envs[uuid], self._referees[uuid], self._turns[uuid] = env, referee, []
        self._total_rewards[uuid], self._step_rewards[uuid], self._pending_obs[uuid] = 0.0, [], None

    async def on_turn_end(self, infer_request: Any, response_choice: Any, current_turn: int) -> dict[str, Any]:
        """Makes the move of a reply; returns whether the game has ended, and the score with its parts."""
        del current_turn
        uuid = infer_request.uuid
        env = self._envs.get(uuid)
        if env is None:
            infos = {"total_reward": 0.0, "step_rewards": [], "gym_done": True, "error": "no game is open."}
            return {"done": True, "rollout_infos": infos}
        self._turns[uuid].append(usage_of(response_choice))
        move = _PARSER.parse(content_text(response_choice.message.content))
        referee = self._referees[uuid]
        if isinstance(move, Move):
            observation, reward, has_ended, _ = await asyncio.to_thread(env.step, {"message": move.text})
            parts = referee.note(move, observed_text(observation), float(reward))
            self._total_rewards[uuid] = words.combined_score(parts)
            self._step_rewards[uuid].append(self._total_rewards[uuid])
        else:
            has_ended = True
            self._total_rewards[uuid] += _NO_MOVE
            self._step_rewards[uuid].append(_NO_MOVE)
        self._pending_obs[uuid] = None if has_ended else referee.next_message()
        infos = {
            "total_reward": self._total_rewards[uuid],
            "step_rewards": list(self._step_rewards[uuid]),
            "turns": list(self._turns[uuid]),
            "gym_done": bool(has_ended),
            **{f"{name}_reward": part for name, part in referee.parts.items()},
        }
        if has_ended:
            await self._close_and_remove(uuid)
        return {"done": bool(has_ended), "rollout_infos": infos}


def scheduler_class() -> type:
    """Returns the scheduler, a subclass of ms-swift's `OpenEnvScheduler`.

    Raises:
        ImportError: If ms-swift can't be imported.
    """
    base = importlib.import_module("swift.rollout.multi_turn").OpenEnvScheduler
    return type("JaxgymSudokuScheduler", (SudokuHooks, base), {"__module__": __name__})


def register(name: str = "jaxgym_sudoku_scheduler") -> None:
    """Puts the scheduler into ms-swift's table of schedulers.

    Raises:
        ImportError: If ms-swift can't be imported.
    """
    importlib.import_module("swift.rollout.multi_turn").multi_turns[name] = scheduler_class()
