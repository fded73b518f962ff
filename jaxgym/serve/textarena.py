"""Environments of TextArena: every text environment as a single-player environment of its registry, by id.

    import textarena
    import jaxgym.serve.textarena                  # registers jaxgym/FrozenLake-v0 and so on

    env = textarena.make("jaxgym/FrozenLake-v0", size=8)
    env.reset(num_players=1, seed=3)
    player, observation = env.get_observation()
    has_ended, info = env.step("<action>right</action>")
    rewards, game_info = env.close()

The suffix `-train` of an id shows the rules and the board, or all texts of the game if its board is not complete; the
suffix `-raw` has no wrapper. `textarena.make` takes options of the environment, of its text interface and of sessions.
"""

import copy
import functools
import importlib
import random
from collections.abc import Callable, Mapping
from typing import Any

from jaxgym import text
from jaxgym.errors import OptionError
from jaxgym.serve.episodes import Episode
from jaxgym.serve.errors import RequestError
from jaxgym.serve.messages import content_text
from jaxgym.serve.sessions import TurnResult
from jaxgym.serve.swift import info_of

try:
    _arena: Any = importlib.import_module("textarena")
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"jaxgym.serve.textarena: TextArena is not installed ({error}). Install it: pip install textarena.",
        name=error.name,
    ) from error

_SHOW_ALL = ("FrozenLake-v0", "Sudoku-v0")  # each text contains the complete state

_PLAYER = 0


class TextArenaEnv(_arena.Env):
    """Text environment with the interface of TextArena's single-player environments.

    It uses the shared session pool of the process. A running episode does not use the process's random numbers.

    Attributes:
        game: The environment id.
        state: TextArena's state of the episode; not set before the first `reset`.
    """

    def __init__(self, game: str, /, error_allowance: int = 1, **options: Any):
        """Make the environment, and compile its programs if this process has not done so.

        Args:
            game: Id or short name of an environment with a text interface.
            error_allowance: Number of allowed consecutive invalid replies; the next one loses. They count if
                `on_invalid_reply` is `"retry"`, the default.
            **options: Options of the environment, of its text interface, and of sessions. The reward is the
                environment's unless `rewards="components"`.

        Raises:
            UnknownIdError, OptionError, LevelError: See `SessionPool.prepare`.
        """
        self.game = text.text_spec_of(game)[0]
        self._error_allowance = error_allowance
        self._options: Mapping[str, Any] = {"rewards": "environment", **options}
        self._episode: Episode | None = None
        self._replies: list[str] = []
        self._text = ""
        mode = options.get("observation_mode", "text")
        if mode != "text":
            raise OptionError(f"{self.game}: observation_mode: expected 'text', got {mode!r}. TextArena has no images.")
        Episode(self.game, None, self._options).check()

    def reset(self, num_players: int, seed: int | None = None) -> None:
        """Start an episode.

        Args:
            num_players: 1.
            seed: The level seed. If None, Python's `random` samples a training seed, as in TextArena's games.

        Raises:
            AssertionError: If `num_players` is not 1.
            RequestError: If the seed is invalid.
            CapacityError: If the pool is full.
        """
        self.close()
        # With a seed, TextArena would seed the generator of the whole process.
        self.state = _arena.SinglePlayerState(num_players, seed=None, error_allowance=self._error_allowance)
        episode = Episode(self.game, random.getrandbits(31) if seed is None else seed, self._options)
        opening = episode.start()
        self._episode, self._replies = episode, []

        def prompt(player_id: int, game_state: Mapping[str, Any]) -> str:
            del player_id, game_state
            return opening.system_prompt

        self.state.reset(game_state={"seed": opening.seed, "text": ""}, player_prompt_function=prompt)
        self._show(opening.text)

    def step(self, action: Any) -> tuple[bool, dict[str, Any]]:
        """Make a turn.

        Args:
            action: The reply; None and other contents of a message without text are an invalid reply.

        Returns:
            Whether the episode has ended, and the `info` of the turn. After the end nothing changes.

        Raises:
            RequestError: If no episode has started, or it was closed before its end.
        """
        state = getattr(self, "state", None)
        if state is not None and state.done:
            return True, state.step_info
        if state is None or self._episode is None:
            raise RequestError(f"{self.game}: expected a running episode, got none. Reset it first.")
        action = content_text(action)
        result = self._episode.step(action)
        self._replies.append(action)
        state.step_info = info_of(result) | {"seed": self._episode.seed, "reward": result.reward}
        kinds = _arena.ObservationType
        state.add_observation(from_id=_PLAYER, message=action, observation_type=kinds.PLAYER_ACTION)
        if result.terminated or result.truncated:
            self._show(result.text)
            state.set_outcome(float(result.total_reward), _reason(result))
        elif result.invalid_reply is not None and self._options.get("on_invalid_reply", "retry") == "retry":
            state.set_invalid_move(result.invalid_reply, float(result.total_reward))
        else:
            self._show(result.text)
        if state.done:
            state.game_info[_PLAYER] |= {"is_solved": result.is_solved, "episode": dict(result.info)}
            self._give_back()
        return state.step()

    def get_board_str(self) -> str:
        """Return the last observation text, for wrappers that render."""
        return self._text

    def close(self) -> tuple[dict[int, float] | None, dict[int, dict[str, Any]]]:
        """Close the session.

        Returns:
            The reward of the player, None before the end, and TextArena's information about the episode: the player's
            role, whether an invalid reply has lost it, the number of turns, and the reason of the end.
        """
        self._give_back()
        state = getattr(self, "state", None)
        return (None, {}) if state is None else state.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> "TextArenaEnv":
        """Return a copy in the same state with its own session."""
        other = object.__new__(type(self))
        memo[id(self)] = other
        other.__dict__.update(
            {name: copy.deepcopy(value, memo) for name, value in vars(self).items() if name != "_episode"}
        )
        other._episode = None
        if self._episode is not None:
            other._episode = Episode(self.game, self._episode.seed, self._options)
            other._episode.start()
            for reply in self._replies:
                other._episode.step(reply)
        return other

    def _show(self, said: str) -> None:
        self._text = self.state.game_state["text"] = said
        self.state.add_observation(said, _arena.ObservationType.GAME_BOARD)

    def _give_back(self) -> None:
        if self._episode is not None:
            self._episode.close()
            self._episode = None


def _reason(result: TurnResult) -> str:
    if result.is_solved:
        return "The game is solved."
    if result.truncated and not result.terminated:
        return "The turn limit has been reached."
    return "The game has ended without success." if result.invalid_reply is None else result.invalid_reply


class _Forgetful(_arena.Wrapper):
    """Wrapper that clears the texts at the start of an episode; TextArena's wrappers keep those of the last episode."""

    def reset(self, num_players: int, seed: int | None = None) -> None:
        """Start an episode."""
        self.full_observations.clear()
        super().reset(num_players, seed)


class FullHistory(_Forgetful, _arena.wrappers.LLMObservationWrapper):
    """Wrapper that shows all texts of an episode and the player's replies."""


class Board(_Forgetful, _arena.wrappers.GameBoardObservationWrapper):
    """Wrapper that shows the rules and the last board."""


class Messages(_Forgetful, _arena.wrappers.GameMessagesObservationWrapper):
    """Wrapper that shows the rules and all texts of an episode, without the player's replies."""


def register() -> list[str]:
    """Register every text environment that is not registered yet; return all ids.

    The import of this module does this. Call it for your own environments that you register after the import.
    """
    registry: dict[str, Any] = importlib.import_module("textarena.envs.registration").ENV_REGISTRY
    names: list[str] = []
    for env_id in text.text_envs().values():
        make: Callable[..., TextArenaEnv] = functools.partial(TextArenaEnv, env_id)
        brief = Board if env_id in _SHOW_ALL else Messages
        for suffix, wrappers in {"": [FullHistory], "-train": [brief], "-raw": []}.items():
            names.append(f"jaxgym/{env_id}{suffix}")
            if names[-1] not in registry:
                _arena.register(names[-1], make, wrappers)
    return names


register()
