"""The sessions of one game under one set of options: their states on the device, and their turns."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxgym.serve.programs import Programs, Seen
from jaxgym.serve.sessions import Outcome, Session, Terms, repeated
from jaxgym.text import Move, Refusal, Turns, Words

_WARM_UP = 64 + 8 + 1


class Game:
    """A table of states, whose rows are sessions, and what is needed to play them. Its caller holds the pool's lock.

    Attributes:
        env_id: The environment.
        instructions: The rules and the form of a reply.
        params: The parameters, on the host.
        count: Sessions that are open.
    """

    def __init__(self, env_id: str, words: Words[Any], params: Any, terms: Terms, programs: Programs, on_device: Any):
        """Makes the table.

        Args:
            env_id: The environment.
            words: Its words.
            params: Its parameters, on the host.
            terms: The values of the options of its sessions.
            programs: Its compiled programs.
            on_device: The parameters on the device.
        """
        self.env_id, self.params = env_id, params
        self.instructions = words.instructions(params)
        self.count = 0
        self._words, self._terms, self._programs, self._on_device = words, terms, programs, on_device
        self._table = programs.new_table()
        self._rows = np.zeros((len(self._table), programs.seen.width), np.uint8)
        self._free = list(range(len(self._table)))[::-1]
        self._keeps_ledgers = type(words).ledger is not Words.ledger
        self._warm_up()
        costs = {"refusal_cost": terms.refusal_cost, "format_cost": terms.format_cost, "step_cost": terms.step_cost}
        self._costs = {name: cost for name, cost in costs.items() if cost}

    def _warm_up(self) -> None:
        """Lets words that have programs of their own compile these, in all sizes that a batch is made of."""
        outside = [len(self._table)] * _WARM_UP
        self._table, rows = self._programs.start(self._table, outside, range(_WARM_UP), self._on_device)
        self._words.open_all(self._programs.seen.view(rows).scene, self.params)

    def take(self, seed: int, used: float) -> Session:
        """Returns a new session; the caller has made sure that a row is free."""
        self.count += 1
        return Session(self, self._free.pop(), seed, used)

    def give_back(self, session: Session) -> None:
        """Frees the row of a session."""
        self.count -= 1
        self._free.append(session.slot)

    def observe(self, session: Session) -> Any:
        """Returns the observation of a session's state, on the host."""
        return self._programs.draw(self._table, session.slot, self._on_device)

    def scene(self, session: Session) -> Any:
        """Returns the scene of a session."""
        seen: Seen = self._programs.seen.view(self._rows[[session.slot]])
        return jax.tree.map(lambda leaf: leaf[0], seen.scene)

    def start(self, sessions: Sequence[Session]) -> None:
        """Starts the episodes of the sessions' seeds."""
        slots = [session.slot for session in sessions]
        seeds = [session.seed for session in sessions]
        self._table, rows = self._programs.start(self._table, slots, seeds, self._on_device)
        self._rows[slots] = rows
        scenes = self._programs.seen.view(rows).scene
        texts = self._words.open_all(scenes, self.params)
        for session, text in zip(sessions, texts, strict=True):
            session.text, session.number, session.total_reward, session.last = text, 0, 0.0, None
        if self._keeps_ledgers:
            leaves, shape = jax.tree.flatten(scenes)
            for row, session in enumerate(sessions):
                session.ledger = self._words.ledger(shape.unflatten([leaf[row] for leaf in leaves]), self.params)

    def step(self, sessions: Sequence[Session], replies: Sequence[str]) -> list[Outcome]:
        """Makes a turn in each of some sessions, no session twice; starts those that have not started."""
        fresh = [session for session in sessions if session.text is None]
        if fresh:
            self.start(fresh)
        outcomes: list[Outcome | None] = [session.last for session in sessions]
        if any(outcomes):
            lanes = [lane for lane, last in enumerate(outcomes) if last is None]
            going_on = iter(self._turns([sessions[lane] for lane in lanes], [replies[lane] for lane in lanes]))
            return [next(going_on) if last is None else repeated(last) for last in outcomes]
        return self._turns(sessions, replies)

    def _turns(self, sessions: Sequence[Session], replies: Sequence[str]) -> list[Outcome]:
        if not sessions:
            return []
        parse = self._words.parse
        asked = [parse(reply) for reply in replies]
        refused = [isinstance(move, Refusal) for move in asked]
        made = asked
        if any(refused) and self._terms.on_parse_failure == "fallback":
            fallback = self._words.fallback()
            made = [fallback if is_refused else move for move, is_refused in zip(asked, refused, strict=True)]
        seen = self._made([session.slot for session in sessions], made)
        numbers = [session.number + 1 for session in sessions]
        terminated, truncated = seen.terminated, seen.truncated
        if self._terms.on_parse_failure == "end":
            terminated = terminated | refused
        if self._terms.max_turns:
            truncated = truncated | (np.asarray(numbers) >= self._terms.max_turns)
        turns = Turns(numbers, made, seen.scene, seen.reward, terminated, truncated)
        texts = self._words.respond_all(turns, self.params)
        components = self._components(sessions, turns, asked)
        reasons = [move.reason if isinstance(move, Refusal) else None for move in asked]
        return self._outcomes(sessions, turns, texts, components, reasons, seen.info)

    def _made(self, slots: Sequence[int], moves: Sequence[Move | Refusal]) -> Seen:
        """Makes the actions of moves, and returns what is then seen, as arrays that may be written to."""
        plans: list[Sequence[Any]] = [move.actions if isinstance(move, Move) else () for move in moves]
        most = self._programs.max_actions
        rewards = np.zeros(len(slots), np.float32)
        begun = 0
        lanes = [lane for lane, plan in enumerate(plans) if plan]
        while lanes:
            parts = [plans[lane][begun : begun + most] for lane in lanes]
            rows = [slots[lane] for lane in lanes]
            self._table, answer = self._programs.move(self._table, rows, parts, self._on_device)
            self._rows[rows] = answer
            seen: Seen = self._programs.seen.view(answer)
            rewards[lanes] += seen.reward
            begun += most
            has_ended = (seen.terminated | seen.truncated).tolist()
            lanes = [
                lane for lane, ended in zip(lanes, has_ended, strict=True) if not ended and len(plans[lane]) > begun
            ]
        return self._programs.seen.view(self._rows[slots])._replace(reward=rewards)

    def _components(
        self, sessions: Sequence[Session], turns: Turns[Any], asked: Sequence[Move | Refusal]
    ) -> list[dict[str, float]]:
        if self._keeps_ledgers:
            ledgers = [session.ledger for session in sessions]
            components = [
                dict(ledger.components(turn)) for ledger, turn in zip(ledgers, turns, strict=True) if ledger is not None
            ]
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
        endings = self._endings(turns, info)
        no_info: dict[str, Any] = {}
        outcomes: list[Outcome] = []
        terminated, truncated = turns.terminated.tolist(), turns.truncated.tolist()
        for lane, session in enumerate(sessions):
            parts = components[lane]
            reward = sum(parts.values())
            session.text = text = texts[lane]
            session.number = number = turns.numbers[lane]
            session.total_reward = total = session.total_reward + reward
            ended = endings.get(lane)
            outcome = Outcome(
                text,
                reward,
                terminated[lane],
                truncated[lane],
                number,
                reasons[lane],
                parts,
                total,
                ended is not None and self._words.is_solved(ended),
                no_info if ended is None else ended,
            )
            if ended is not None:
                session.last = outcome
            outcomes.append(outcome)
        return outcomes

    def _endings(self, turns: Turns[Any], info: Any) -> dict[int, Any]:
        """Returns the `info` of the lanes whose episode has ended, as plain values."""
        lanes = np.flatnonzero(turns.terminated | turns.truncated).tolist()
        if not lanes:
            return {}
        leaves, shape = jax.tree.flatten(info)
        columns = [leaf.tolist() for leaf in leaves]
        return {lane: shape.unflatten([column[lane] for column in columns]) for lane in lanes}
