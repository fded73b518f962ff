"""Games of a pool: the sessions of one environment with one set of options, and their turns.

Replies become actions, and step outputs become texts and rewards.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxgym.errors import ContractError, OptionError
from jaxgym.serve.errors import RequestError
from jaxgym.serve.images import Frame
from jaxgym.serve.pool.programs import Programs, StepOutput
from jaxgym.serve.pool.saves import SavedSession
from jaxgym.serve.pool.session import Session, SessionSnapshot
from jaxgym.serve.sessions import SessionOptions, TurnResult, repeated
from jaxgym.text import InvalidReply, ParsedAction, RewardTracker, TextInterface, Turns, contract
from jaxgym.text.replies import without_form

_PENALTIES = ("invalid_reply_penalty", "format_penalty", "step_penalty")
_SHORT = 256
_MOST_SHORT = 4096
_WARM_UP = 64 + 8

_new_result = partial(tuple.__new__, TurnResult)


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
        options: Mapping[str, Any],
        interface: TextInterface[Any],
        params: Any,
        session_options: SessionOptions,
        programs: Programs,
        on_device: Any,
    ):
        """Make the table; `params` are the parameters on the host, `on_device` those on the device.

        `options` are the options that `SessionPool.open` was given, including `session_options`.
        """
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
        self.env_id, self.options = env_id, options
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

    def _new_trackers(self, scenes: Any) -> list[RewardTracker]:
        leaves, shape = jax.tree.flatten(scenes)
        rows = (shape.unflatten([leaf[row] for leaf in leaves]) for row in range(len(leaves[0])))
        return [self._interface.reward_tracker(scene, self.params) for scene in rows]

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
            if session.past is not None:
                session.past.clear()
        if self._keeps_trackers:
            for session, tracker in zip(sessions, self._new_trackers(scenes), strict=True):
                session.reward_tracker = tracker
        return images()

    # Copies of sessions.

    def fork(self, session: Session, count: int, used: float, words: np.ndarray | None) -> list[Session]:
        """Return copies of a session; the caller has checked that rows are free.

        Args:
            session: The session.
            count: Number of copies.
            used: Time of the call.
            words: Keys of new chance events for each copy, uint32 (count, 2); None keeps the events of the session.
        """
        record = session.record()
        made = [self.take(session.seed, used) for _ in range(count)]
        slots = np.asarray([copied.slot for copied in made], np.int32)
        self._table = self._programs.copy(self._table, session.slot, slots)
        if words is not None:
            self._table = self._programs.reseed(self._table, slots, words, self._on_device)
        self._rows[slots] = self._rows[session.slot]
        for copied in made:
            copied.restore(record, session.reward_tracker)
            if session.past is not None:
                copied.past = session.past.copy()
        return made

    def snapshots(self, sessions: Sequence[Session]) -> list[SessionSnapshot]:
        """Return everything that several sessions have."""
        slots = np.asarray([session.slot for session in sessions], np.int32)
        rows = zip(self._programs.read(self._table, slots), self._rows[slots], strict=True)
        pairs = zip(sessions, rows, strict=True)
        return [
            SessionSnapshot(session.record(), state.tobytes(), output.tobytes()) for session, (state, output) in pairs
        ]

    def restore(self, sessions: Sequence[Session], snapshots: Sequence[SessionSnapshot]) -> list[str | None]:
        """Set everything that several different sessions have; return their texts."""
        slots = np.asarray([session.slot for session in sessions], np.int32)
        self._rows[slots] = _stacked([snapshot.output for snapshot in snapshots])
        self._table = self._programs.write(self._table, slots, _stacked([snapshot.state for snapshot in snapshots]))
        for session, snapshot in zip(sessions, snapshots, strict=True):
            session.restore(snapshot.record, session.reward_tracker)
        return [session.text for session in sessions]

    def trackers_of(self, saved: Sequence[SavedSession]) -> list[RewardTracker]:
        """Return a reward tracker for each saved session of this game.

        Raises:
            RequestError: If no text can be made of a snapshot, or a record is none of this game's trackers.
        """
        past = [snapshot for each in saved for snapshot in each.past]
        snapshots = [*(each.now for each in saved), *past]
        widths = self._programs.states.width, self._programs.output.width
        if any((len(snapshot.state), len(snapshot.output)) != widths for snapshot in snapshots):
            raise RequestError(f"data: {self.env_id}: expected states of this game, got others.")
        trackers = [RewardTracker() for _ in snapshots]
        indices = [index for index, snapshot in enumerate(snapshots) if snapshot.record.text is not None]
        try:
            if indices:
                scenes = self._programs.output.view(_stacked([snapshots[index].output for index in indices])).scene
                contract.check_texts(self.env_id, "open", self._open_all(scenes, self.params), len(indices))
                if self._keeps_trackers:
                    for index, tracker in zip(indices, self._new_trackers(scenes), strict=True):
                        trackers[index] = tracker
            for snapshot, tracker in zip(snapshots, trackers, strict=True):
                if (snapshot.record.tracker is None) != (type(tracker) is RewardTracker):
                    raise ValueError("a record of a reward tracker is missing, or the game has none")
                if snapshot.record.tracker is not None:
                    tracker.check_record(*snapshot.record.tracker)
        except Exception as error:  # the contents of a file can be anything
            raise RequestError(
                f"data: {self.env_id}: expected the record of a session, got {type(error).__name__}: {error}"
            ) from error
        return trackers[: len(saved)]

    @property
    def layout(self) -> str:
        """Hash of the layout of a snapshot, by which a save of another version is recognized."""
        layout = f"{self._programs.states.dtype} {self._programs.output.dtype}"
        return hashlib.sha256(layout.encode()).hexdigest()

    def step(
        self, sessions: Sequence[Session], replies: Sequence[str | InvalidReply]
    ) -> list[TurnResult | ContractError]:
        """Make a turn in each of several different sessions; start those that have not started.

        The `image` of a result is a `Frame`, for the caller to encode, or None without images. A session whose reply
        could not be parsed has the error in place of a result, and makes no turn.
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

    def _turns(
        self, sessions: Sequence[Session], replies: Sequence[str | InvalidReply]
    ) -> list[TurnResult | ContractError]:
        asked: list[Any] = [self._read.get(reply) or self._parsed(reply) for reply in replies]
        kinds = set(map(type, asked))
        if not kinds or ContractError in kinds:
            sound = [index for index, move in enumerate(asked) if type(move) is not ContractError]
            parts = [sessions[index] for index in sound], [replies[index] for index in sound]
            others = iter(self._turns(*parts) if sound else ())
            return [move if type(move) is ContractError else next(others) for move in asked]
        before = [] if sessions[0].past is None else self.snapshots(sessions)
        session_options = self._session_options
        made, reasons = asked, [None] * len(asked)
        if InvalidReply in kinds:
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
        if InvalidReply in kinds:
            made = [
                InvalidReply(without_form(move.reason)) if isinstance(move, InvalidReply) and is_over else move
                for move, is_over in zip(made, (terminated | truncated).tolist(), strict=True)
            ]
        turns = Turns(numbers, made, output.scene, output.reward, terminated, truncated)
        texts = self._respond_all(turns, self.params)
        components = self._components(sessions, turns, asked)
        results = self._results(sessions, turns, texts, components, reasons, output.info, images())
        if sessions[0].history is not None:  # of all sessions or of none
            for session, reply, result in zip(sessions, replies, results, strict=True):
                session.history.add(reply, result)  # pyright: ignore[reportOptionalMemberAccess]
        for session, snapshot in zip(sessions, before, strict=False):
            session.past.append(snapshot)  # pyright: ignore[reportOptionalMemberAccess]
        return [*results]

    def _parsed(self, reply: str | InvalidReply) -> ParsedAction | InvalidReply | ContractError:
        """Parse a reply, or return the error of a faulty parser.

        Short replies are cached, because models repeat a few of them.
        """
        if isinstance(reply, InvalidReply):
            return reply
        try:
            move = self._parse(reply)
        except ContractError as error:
            return error
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


def _stacked(rows: Sequence[bytes]) -> np.ndarray:
    """Return rows as one array, uint8 (n, width)."""
    return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
