"""Games of a pool: the sessions of one environment with one set of options, and their turns.

Replies become actions, and step outputs become texts and rewards.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxgym.errors import OptionError
from jaxgym.serve.images import Frame
from jaxgym.serve.pool.logic import StepOutput
from jaxgym.serve.pool.programs import Programs
from jaxgym.serve.sessions import SessionOptions, TurnResult, repeated
from jaxgym.text import InvalidReply, ParsedAction, RewardTracker, TextInterface, Turns, contract

TURNS = 32
"""Maximum number of turns in a history."""

LONGEST = 4096
"""Maximum number of characters of a reply or a text in a history."""

_FIELDS = ("number", "reply", "text", "reward", "invalid_reply")
_PENALTIES = ("invalid_reply_penalty", "format_penalty", "step_penalty")
_SHORT = 256
_MOST_SHORT = 4096
_WARM_UP = 64 + 8

_new_result = partial(tuple.__new__, TurnResult)


class History:
    """Last turns of a session's episode, which is number `episode` and begins with the text `opening`."""

    __slots__ = ("_turns", "episode", "opening")

    def __init__(self) -> None:
        self.episode, self.opening = 0, ""
        self._turns: deque[tuple[int, str, str, float, str | None]] = deque(maxlen=TURNS)

    def start(self, text: str) -> None:
        """Start an episode."""
        self.episode += 1
        self.opening = text[:LONGEST]
        self._turns.clear()

    def after(self, episode: int, number: int) -> list[dict[str, Any]]:
        """Return the turns after turn `number` of an episode, by field; all turns if it is not the current episode."""
        first = number if episode == self.episode else 0
        return [dict(zip(_FIELDS, turn, strict=True)) for turn in self._turns if turn[0] > first]

    @staticmethod
    def add_all(
        histories: Iterable["History | None"], replies: Iterable[str | InvalidReply], results: Iterable[TurnResult]
    ) -> None:
        """Add one turn to each of several histories."""
        for history, reply, result in zip(histories, replies, results, strict=True):
            if history is not None:
                said = reply if isinstance(reply, str) else reply.reason
                turn = (result.number, said[:LONGEST], result.text[:LONGEST], result.reward, result.invalid_reply)
                history._turns.append(turn)


class Session:
    """Host data of a session; its state is a row of its game's table.

    Attributes:
        game: Its `GameTable`.
        slot: Its row.
        seed: The level seed.
        text: The last observation text; None before the start.
        number: Number of turns in this episode.
        total_reward: Sum of the rewards of this episode.
        reward_tracker: The reward tracker of this episode.
        last: The result that ended the episode, or None.
        used: Time of the last call, in seconds of the pool's clock.
        history: The last turns, if the pool keeps a history.
    """

    __slots__ = ("game", "history", "last", "number", "reward_tracker", "seed", "slot", "text", "total_reward", "used")

    def __init__(self, game: "GameTable", slot: int, seed: int, used: float):
        self.game, self.slot, self.seed, self.used = game, slot, seed, used
        self.text: str | None = None
        self.number = 0
        self.total_reward = 0.0
        self.reward_tracker = RewardTracker()
        self.last: TurnResult | None = None
        self.history: History | None = None


def system_prompt_of(interface: TextInterface[Any], params: Any, session_options: SessionOptions) -> str:
    """Return the system prompt of an interface, with the rules of the session options before the reply format.

    Raises:
        OptionError: If the options ask for images, and the interface does not describe them.
    """
    mode, reply_format = session_options.observation_mode, interface.reply_format()
    try:
        prompt = interface.image_prompt(params) if mode == "image" else interface.system_prompt(params)
        legend = interface.image_legend(params) if mode == "both" else ""
    except NotImplementedError as error:
        if mode == "text":
            raise
        raise OptionError(
            f"{interface.env_id}: observation_mode: expected 'text', got {mode!r}. To use it, define the methods "
            "image_prompt and image_legend of the text interface."
        ) from error
    has_fallback = session_options.on_invalid_reply == "fallback"
    rules = session_options.rules(interface.fallback().text if has_fallback else "")
    if not (rules or legend):
        return prompt
    parts = (prompt.removesuffix(reply_format).rstrip(), legend, rules, reply_format)
    return "\n\n".join(filter(None, parts)).rstrip()


class GameTable:
    """Table of states whose rows are sessions, and their turns. The caller holds the pool's lock."""

    def __init__(
        self,
        env_id: str,
        interface: TextInterface[Any],
        params: Any,
        session_options: SessionOptions,
        programs: Programs,
        on_device: Any,
    ):
        """Make the table; `params` are the parameters on the host, `on_device` those on the device."""
        self.params = params
        self._interface, self._session_options = interface, session_options
        self._programs, self._on_device = programs, on_device
        # The interfaces of jaxgym satisfy the contract by their tests, and the check takes as long as a cached parse.
        is_own = type(interface).__module__.startswith("jaxgym.")
        self._parse = interface.parse if is_own else partial(contract.parse, interface, space=programs.space)
        self._has_images = session_options.observation_mode != "text"
        self._open_all, self._respond_all = interface.open_all, interface.respond_all
        if session_options.observation_mode == "image":
            self._open_all, self._respond_all = interface.open_beside, interface.respond_beside
        self._table = programs.new_table()
        self._rows = np.zeros((len(self._table), programs.output.width), np.uint8)
        self._read: dict[str | InvalidReply, ParsedAction | InvalidReply] = {}
        self._keeps_trackers = (
            type(interface).reward_tracker is not TextInterface.reward_tracker
            and session_options.rewards == "components"
        )
        penalties = {name: getattr(session_options, name) for name in _PENALTIES}
        self._penalties = {name: penalty for name, penalty in penalties.items() if penalty}
        self.env_id = env_id
        self.system_prompt = system_prompt_of(interface, params, session_options)
        self.reply_format = interface.reply_format()
        self.text_version = interface.text_version
        self.count = 0
        self._free = list(range(len(self._table)))[::-1]
        self._warm_up()

    def _warm_up(self) -> None:
        """Make texts for batches of all sizes, so that text interfaces with jitted programs compile them."""
        outside = [len(self._table)] * _WARM_UP
        self._table, rows = self._programs.start(self._table, outside, range(_WARM_UP), self._on_device)
        self._open_all(self._programs.output.view(rows).scene, self.params)
        if self._has_images:
            self._programs.prepare_frames(self._table, self._on_device)

    def take(self, seed: int, used: float) -> Session:
        """Return a new session; the caller has checked that a row is free."""
        self.count += 1
        return Session(self, self._free.pop(), seed, used)

    def give_back(self, session: Session) -> None:
        """Free the row of a session."""
        self.count -= 1
        self._free.append(session.slot)

    def frame(self, session: Session) -> np.ndarray | None:
        """Return the frame of a session's state, or None if its observations are not frames."""
        frames = self._programs.draw(self._table, [session.slot], self._on_device)()
        return None if frames is None else frames[0]

    def _images(self, sessions: Sequence[Session]) -> Callable[[], Sequence[Any]]:
        """Start to draw sessions; return a function that waits for a `Frame` of each, or for None without images."""
        if not self._has_images:
            return lambda: [None] * len(sessions)
        draw = self._programs.draw(self._table, [session.slot for session in sessions], self._on_device)
        return lambda: [Frame(pixels, self._session_options.image_scale) for pixels in draw()]

    def scene(self, session: Session) -> Any:
        """Return the scene of a session."""
        output: StepOutput = self._programs.output.view(self._rows[[session.slot]])
        return jax.tree.map(lambda leaf: leaf[0], output.scene)

    def start(self, sessions: Sequence[Session]) -> Sequence[Any]:
        """Start the episodes of the sessions' seeds; return a `Frame` for each, or None without images."""
        slots = np.asarray([session.slot for session in sessions], np.intp)
        seeds = [session.seed for session in sessions]
        self._table, rows = self._programs.start(self._table, slots, seeds, self._on_device)
        self._rows[slots] = rows
        images = self._images(sessions)
        scenes = self._programs.output.view(rows).scene
        texts = self._open_all(scenes, self.params)
        for session, text in zip(sessions, texts, strict=True):
            session.text = contract.checked_text(self.env_id, "open", text)
            session.number, session.total_reward, session.last = 0, 0.0, None
            if session.history is not None:
                session.history.start(text)
        if self._keeps_trackers:
            leaves, shape = jax.tree.flatten(scenes)
            for row, session in enumerate(sessions):
                session.reward_tracker = self._interface.reward_tracker(
                    shape.unflatten([leaf[row] for leaf in leaves]), self.params
                )
        return images()

    def step(self, sessions: Sequence[Session], replies: Sequence[str | InvalidReply]) -> list[TurnResult]:
        """Make a turn in each of several different sessions; start those that have not started.

        The `image` of a result is a `Frame`, for the caller to encode, or None without images.
        """
        fresh = [session for session in sessions if session.text is None]
        if fresh:
            self.start(fresh)
        repeats = [session.last for session in sessions]
        if not any(repeats):
            return self._turns(sessions, replies)
        indices = [index for index, last in enumerate(repeats) if last is None]
        going_on = iter(self._turns([sessions[index] for index in indices], [replies[index] for index in indices]))
        return [next(going_on) if last is None else repeated(last) for last in repeats]

    def _turns(self, sessions: Sequence[Session], replies: Sequence[str | InvalidReply]) -> list[TurnResult]:
        if not sessions:
            return []
        session_options = self._session_options
        asked = [self._read.get(reply) or self._parsed(reply) for reply in replies]
        made, reasons = asked, [None] * len(asked)
        if InvalidReply in set(map(type, asked)):
            reasons = [move.reason if isinstance(move, InvalidReply) else None for move in asked]
            if session_options.on_invalid_reply == "fallback":
                made = [self._interface.fallback() if isinstance(move, InvalidReply) else move for move in asked]
        output = self._made(sessions, made)
        images = self._images(sessions)
        numbers = [session.number + 1 for session in sessions]
        terminated, truncated = output.terminated, output.truncated
        if session_options.on_invalid_reply == "end":
            terminated = terminated | np.asarray([reason is not None for reason in reasons])
        if session_options.max_turns:
            truncated = truncated | (np.asarray(numbers) >= session_options.max_turns)
        turns = Turns(numbers, made, output.scene, output.reward, terminated, truncated)
        texts = self._respond_all(turns, self.params)
        components = self._components(sessions, turns, asked)
        results = self._results(sessions, turns, texts, components, reasons, output.info, images())
        if sessions[0].history is not None:
            History.add_all([session.history for session in sessions], replies, results)
        return results

    def _parsed(self, reply: str | InvalidReply) -> ParsedAction | InvalidReply:
        """Parse a reply; cache short replies, because models repeat a few of them."""
        if isinstance(reply, InvalidReply):
            return reply
        move = self._parse(reply)
        if len(reply) <= _SHORT:
            if len(self._read) >= _MOST_SHORT:
                self._read.clear()
            self._read[reply] = move
        return move

    def _made(self, sessions: Sequence[Session], moves: Sequence[ParsedAction | InvalidReply]) -> StepOutput:
        """Make the actions of parsed replies, and return the output of the steps."""
        plans: list[Sequence[Any]] = [() if isinstance(move, InvalidReply) else move.actions for move in moves]
        slots = np.asarray([session.slot for session in sessions], np.intp)
        lengths = list(map(len, plans))
        counts, most = np.asarray(lengths), self._programs.max_actions
        if min(lengths) > 0 and max(lengths) <= most:
            return self._run(slots, counts, plans)
        rewards = np.zeros(len(slots), np.float32)
        indices = np.flatnonzero(counts)
        begun = 0
        while len(indices):
            parts = [plans[index][begun : begun + most] for index in indices]
            output = self._run(slots[indices], np.minimum(counts[indices] - begun, most), parts)
            rewards[indices] += output.reward
            begun += most
            indices = indices[~(output.terminated | output.truncated) & (counts[indices] > begun)]
        return self._programs.output.view(self._rows[slots])._replace(reward=rewards)

    def _run(self, slots: np.ndarray, counts: np.ndarray, plans: Sequence[Sequence[Any]]) -> StepOutput:
        self._table, rows = self._programs.move(self._table, slots, counts, plans, self._on_device)
        self._rows[slots] = rows
        return self._programs.output.view(rows)

    def _components(
        self, sessions: Sequence[Session], turns: Turns[Any], asked: Sequence[ParsedAction | InvalidReply]
    ) -> list[dict[str, float]]:
        if self._keeps_trackers:
            pairs = zip(sessions, turns, strict=True)
            components = [dict(session.reward_tracker.components(turn)) for session, turn in pairs]
        else:
            components = [{"environment": reward} for reward in turns.rewards.tolist()]
        if self._penalties:
            for move, parts in zip(asked, components, strict=True):
                is_invalid = isinstance(move, InvalidReply)
                applies = {
                    "invalid_reply_penalty": is_invalid,
                    "format_penalty": not is_invalid and not move.is_exact,
                    "step_penalty": True,
                }
                for name, penalty in self._penalties.items():
                    parts[name] = -penalty if applies[name] else 0.0
        return components

    def _results(
        self,
        sessions: Sequence[Session],
        turns: Turns[Any],
        texts: Sequence[str],
        components: Sequence[dict[str, float]],
        reasons: Sequence[str | None],
        info: Any,
        frames: Sequence[Any],
    ) -> list[TurnResult]:
        is_plain = not (self._penalties or self._keeps_trackers)
        rewards = turns.rewards.tolist() if is_plain else [sum(parts.values()) for parts in components]
        totals = [session.total_reward + reward for session, reward in zip(sessions, rewards, strict=True)]
        contract.check_texts(self.env_id, "respond", texts, len(sessions))
        for session, text, number, total in zip(sessions, texts, turns.numbers, totals, strict=True):
            session.text, session.number, session.total_reward = text, number, total
        are_solved: list[bool] = [False] * len(sessions)
        infos: list[Any] = [{} for _ in sessions]
        ended = np.flatnonzero(turns.terminated | turns.truncated).tolist()
        if ended:
            leaves, shape = jax.tree.flatten(info)
            entries = [leaf.tolist() for leaf in leaves]
            for index in ended:
                infos[index] = shape.unflatten([entry[index] for entry in entries])
                are_solved[index] = self._interface.is_solved(infos[index])
        flags = (turns.terminated.tolist(), turns.truncated.tolist())
        columns = (texts, rewards, *flags, turns.numbers, reasons, components, totals, are_solved, infos, frames)
        # `tuple.__new__` takes a third of the time of the NamedTuple's constructor.
        results = list(map(_new_result, zip(*columns, strict=True)))
        for index in ended:
            sessions[index].last = results[index]
            if frames[index] is not None:  # a view would keep the frames of the whole batch
                last = frames[index]._replace(pixels=frames[index].pixels.copy())
                sessions[index].last = results[index]._replace(image=last)
        return results
