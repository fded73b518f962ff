"""Sessions of one environment with one set of options: their states on the device, and their turns."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxgym.serve.pool.history import History
from jaxgym.serve.pool.programs import Programs, Seen
from jaxgym.serve.sessions import Outcome, SessionOptions, Standing, repeated
from jaxgym.text import Ledger, Move, Refusal, Turns, Words

_WARM_UP = 64 + 8

_SHORT = 256
_MOST_SHORT = 4096

_new_outcome = partial(tuple.__new__, Outcome)


class Session:
    """Host data of a session; its state is a row of its game's table.

    Attributes:
        game: The table of its game.
        slot: Its row.
        seed: The level seed.
        text: The last observation text; None before the start.
        number: Number of turns in this episode.
        total_reward: Sum of the rewards of this episode.
        ledger: The reward tracker of this episode; None if the only component is the environment's reward.
        last: The result that ended the episode, or None.
        used: Time of the last call, in seconds of the pool's clock.
        history: The last turns, if the pool keeps a history.
    """

    __slots__ = ("game", "history", "last", "ledger", "number", "seed", "slot", "text", "total_reward", "used")

    def __init__(self, game: "GameTable", slot: int, seed: int, used: float):
        self.game, self.slot, self.seed, self.used = game, slot, seed, used
        self.text: str | None = None
        self.number = 0
        self.total_reward = 0.0
        self.ledger: Ledger | None = None
        self.last: Outcome | None = None
        self.history: History | None = None

    def standing(self) -> Standing:
        """Return the status."""
        flags = (False, False) if self.last is None else (self.last.terminated, self.last.truncated)
        return Standing(
            self.game.env_id, self.seed, self.text is not None, self.text or "", self.number, self.total_reward, *flags
        )


class GameTable:
    """Table of states whose rows are sessions, with their programs. The caller holds the pool's lock.

    Attributes:
        env_id: The environment id.
        instructions: The system prompt.
        params: The parameters, on the host.
        count: Number of open sessions.
    """

    def __init__(
        self, env_id: str, words: Words[Any], params: Any, terms: SessionOptions, programs: Programs, on_device: Any
    ):
        """Make the table.

        Args:
            env_id: The environment id.
            words: The text interface.
            params: The parameters, on the host.
            terms: The options of its sessions.
            programs: The compiled programs.
            on_device: The parameters on the device.
        """
        self.env_id, self.params = env_id, params
        self.instructions = words.instructions(params)
        self.count = 0
        self._words, self._terms, self._programs, self._on_device = words, terms, programs, on_device
        self._table = programs.new_table()
        self._rows = np.zeros((len(self._table), programs.seen.width), np.uint8)
        self._free = list(range(len(self._table)))[::-1]
        self._read: dict[str | Refusal, Move | Refusal] = {}
        self._keeps_ledgers = type(words).ledger is not Words.ledger and terms.scoring == "parts"
        self._warm_up()
        costs = {"refusal_cost": terms.refusal_cost, "format_cost": terms.format_cost, "step_cost": terms.step_cost}
        self._costs = {name: cost for name, cost in costs.items() if cost}

    def _warm_up(self) -> None:
        """Make texts for batches of all sizes, so that text interfaces with jitted programs compile them."""
        outside = [len(self._table)] * _WARM_UP
        self._table, rows = self._programs.start(self._table, outside, range(_WARM_UP), self._on_device)
        self._words.open_all(self._programs.seen.view(rows).scene, self.params)

    def take(self, seed: int, used: float) -> Session:
        """Return a new session; the caller has checked that a row is free."""
        self.count += 1
        return Session(self, self._free.pop(), seed, used)

    def give_back(self, session: Session) -> None:
        """Free the row of a session."""
        self.count -= 1
        self._free.append(session.slot)

    def observe(self, session: Session) -> Any:
        """Return the observation of a session's state, on the host."""
        return self._programs.draw(self._table, session.slot, self._on_device)

    def scene(self, session: Session) -> Any:
        """Return the scene of a session."""
        seen: Seen = self._programs.seen.view(self._rows[[session.slot]])
        return jax.tree.map(lambda leaf: leaf[0], seen.scene)

    def start(self, sessions: Sequence[Session]) -> None:
        """Start the episodes of the sessions' seeds."""
        slots = np.asarray([session.slot for session in sessions], np.intp)
        seeds = [session.seed for session in sessions]
        self._table, rows = self._programs.start(self._table, slots, seeds, self._on_device)
        self._rows[slots] = rows
        scenes = self._programs.seen.view(rows).scene
        texts = self._words.open_all(scenes, self.params)
        for session, text in zip(sessions, texts, strict=True):
            session.text, session.number, session.total_reward, session.last = text, 0, 0.0, None
            if session.history is not None:
                session.history.start(text)
        if self._keeps_ledgers:
            leaves, shape = jax.tree.flatten(scenes)
            for row, session in enumerate(sessions):
                session.ledger = self._words.ledger(shape.unflatten([leaf[row] for leaf in leaves]), self.params)

    def step(self, sessions: Sequence[Session], replies: Sequence[str | Refusal]) -> list[Outcome]:
        """Make a turn in each of several different sessions; start those that have not started."""
        fresh = [session for session in sessions if session.text is None]
        if fresh:
            self.start(fresh)
        repeats = [session.last for session in sessions]
        if not any(repeats):
            return self._turns(sessions, replies)
        lanes = [lane for lane, last in enumerate(repeats) if last is None]
        going_on = iter(self._turns([sessions[lane] for lane in lanes], [replies[lane] for lane in lanes]))
        return [next(going_on) if last is None else repeated(last) for last in repeats]

    def _turns(self, sessions: Sequence[Session], replies: Sequence[str | Refusal]) -> list[Outcome]:
        if not sessions:
            return []
        terms = self._terms
        asked = [self._read.get(reply) or self._parsed(reply) for reply in replies]
        made, reasons = asked, [None] * len(asked)
        if Refusal in set(map(type, asked)):
            reasons = [move.reason if isinstance(move, Refusal) else None for move in asked]
            if terms.on_parse_failure == "fallback":
                made = [self._words.fallback() if isinstance(move, Refusal) else move for move in asked]
        seen = self._made(sessions, made)
        numbers = [session.number + 1 for session in sessions]
        terminated, truncated = seen.terminated, seen.truncated
        if terms.on_parse_failure == "end":
            terminated = terminated | np.asarray([reason is not None for reason in reasons])
        if terms.max_turns:
            truncated = truncated | (np.asarray(numbers) >= terms.max_turns)
        turns = Turns(numbers, made, seen.scene, seen.reward, terminated, truncated)
        texts = self._words.respond_all(turns, self.params)
        components = self._components(sessions, turns, asked)
        outcomes = self._outcomes(sessions, turns, texts, components, reasons, seen.info)
        if sessions[0].history is not None:
            History.add_all([session.history for session in sessions], replies, outcomes)
        return outcomes

    def _parsed(self, reply: str | Refusal) -> Move | Refusal:
        """Parse a reply; cache short replies, because models repeat a few of them."""
        if isinstance(reply, Refusal):
            return reply
        move = self._words.parse(reply)
        if len(reply) <= _SHORT:
            if len(self._read) >= _MOST_SHORT:
                self._read.clear()
            self._read[reply] = move
        return move

    def _made(self, sessions: Sequence[Session], moves: Sequence[Move | Refusal]) -> Seen:
        """Make the actions of parsed replies, and return the output of the steps."""
        plans: list[Sequence[Any]] = [() if isinstance(move, Refusal) else move.actions for move in moves]
        slots = np.asarray([session.slot for session in sessions], np.intp)
        counts = np.asarray(list(map(len, plans)))
        most = self._programs.max_actions
        if counts.min() > 0 and counts.max() <= most:
            return self._run(slots, counts, plans)
        rewards = np.zeros(len(slots), np.float32)
        lanes = np.flatnonzero(counts)
        begun = 0
        while len(lanes):
            parts = [plans[lane][begun : begun + most] for lane in lanes]
            seen = self._run(slots[lanes], np.minimum(counts[lanes] - begun, most), parts)
            rewards[lanes] += seen.reward
            begun += most
            lanes = lanes[~(seen.terminated | seen.truncated) & (counts[lanes] > begun)]
        return self._programs.seen.view(self._rows[slots])._replace(reward=rewards)

    def _run(self, slots: np.ndarray, counts: np.ndarray, plans: Sequence[Sequence[Any]]) -> Seen:
        self._table, rows = self._programs.move(self._table, slots, counts, plans, self._on_device)
        self._rows[slots] = rows
        return self._programs.seen.view(rows)

    def _components(
        self, sessions: Sequence[Session], turns: Turns[Any], asked: Sequence[Move | Refusal]
    ) -> list[dict[str, float]]:
        if self._keeps_ledgers:
            ledgers = [session.ledger if session.ledger is not None else Ledger() for session in sessions]
            components = [dict(ledger.components(turn)) for ledger, turn in zip(ledgers, turns, strict=True)]
        else:
            components = [{"environment": reward} for reward in turns.rewards.tolist()]
        if self._costs:
            for move, parts in zip(asked, components, strict=True):
                is_refused = isinstance(move, Refusal)
                applies = {
                    "refusal_cost": is_refused,
                    "format_cost": not is_refused and not move.is_exact,
                    "step_cost": True,
                }
                for name, cost in self._costs.items():
                    parts[name] = -cost if applies[name] else 0.0
        return components

    def _outcomes(
        self,
        sessions: Sequence[Session],
        turns: Turns[Any],
        texts: Sequence[str],
        components: Sequence[dict[str, float]],
        reasons: Sequence[str | None],
        info: Any,
    ) -> list[Outcome]:
        is_plain = not (self._costs or self._keeps_ledgers)
        rewards = turns.rewards.tolist() if is_plain else [sum(parts.values()) for parts in components]
        totals = [session.total_reward + reward for session, reward in zip(sessions, rewards, strict=True)]
        for session, text, number, total in zip(sessions, texts, turns.numbers, totals, strict=True):
            session.text, session.number, session.total_reward = text, number, total
        are_solved: list[bool] = [False] * len(sessions)
        infos: list[Any] = [{} for _ in sessions]
        ended = np.flatnonzero(turns.terminated | turns.truncated).tolist()
        if ended:
            leaves, shape = jax.tree.flatten(info)
            columns = [leaf.tolist() for leaf in leaves]
            for lane in ended:
                infos[lane] = shape.unflatten([column[lane] for column in columns])
                are_solved[lane] = self._words.is_solved(infos[lane])
        flags = (turns.terminated.tolist(), turns.truncated.tolist())
        # `tuple.__new__` takes a third of the time of the NamedTuple's constructor.
        outcomes = list(
            map(
                _new_outcome,
                zip(
                    texts,
                    rewards,
                    *flags,
                    turns.numbers,
                    reasons,
                    components,
                    totals,
                    are_solved,
                    infos,
                    strict=True,
                ),
            )
        )
        for lane in ended:
            sessions[lane].last = outcomes[lane]
        return outcomes
