"""Copies of open sessions: branches of an episode, saved sessions, and turns that are taken back."""

import time
from collections import deque
from collections.abc import Sequence

import numpy as np

from jaxgym.options import is_integer
from jaxgym.serve.errors import CapacityError, RequestError
from jaxgym.serve.pool import saves
from jaxgym.serve.pool.games import GameTable
from jaxgym.serve.pool.open_sessions import OpenSessions, per_game
from jaxgym.serve.pool.saves import SavedGame, SavedSession
from jaxgym.serve.pool.session import LONGEST, History, Session, SessionSnapshot


class Branches(OpenSessions):
    """Open sessions that can be forked, saved, loaded and undone.

    These methods are for trainers and other programs, not for models: a model that takes moves back does not play the
    game that its prompt describes. By default, no server offers them to its clients.
    """

    _keeps_history: bool
    _undo_turns: int

    def _equip(self, session: Session) -> None:
        if self._keeps_history:
            session.history = History()
        if self._undo_turns:
            session.past = deque(maxlen=self._undo_turns)

    def fork(self, session_id: str, n: int = 1, *, reseed: bool = False, seed: int | None = None) -> list[str]:
        """Copy a session n times.

        The same replies give the same texts, images and rewards in the session and in its copies. The session does not
        change. The first call with a batch size compiles a small program.

        Args:
            session_id: The session, at any turn.
            n: Number of copies.
            reseed: Whether each copy gets other chance events in the turns to come, such as slips. A level determines
                these events in advance, so a search without `reseed` foresees them. See
                `jaxgym.environment.Environment.reseed`.
            seed: Seed of the new chance events, an integer of at least 0; None draws one. Copy number i gets the same
                events for every n.

        Returns:
            The ids of the copies.

        Raises:
            UnknownSessionError: If the session is not open.
            RequestError: If `n` or `seed` is invalid.
            CapacityError: If the pool has no room for the copies.
        """
        if not is_integer(n) or n < 1:
            raise RequestError(f"n: expected an integer of at least 1, got {n!r}.")
        if seed is not None and not (reseed and is_integer(seed) and seed >= 0):
            raise RequestError(f"seed: expected None, or an integer of at least 0 with reseed=True, got {seed!r}.")
        with self._calls:
            session, used = self._session(session_id), time.monotonic()
            session.used = used
            self._check_room(n, used)
            words = None
            if reseed:
                if session.text is None:
                    session.game.start([session])
                words = np.random.SeedSequence(None if seed is None else int(seed)).generate_state(2 * n).reshape(n, 2)
            copies = session.game.fork(session, n, used, words)
            ids = [self._new_id() for _ in copies]
            self._sessions.update(zip(ids, copies, strict=True))
        return ids

    def undo(self, session_id: str, turns: int = 1) -> str:
        """Take back the last turns of a session's episode, including the turn that ended it.

        Args:
            session_id: The session.
            turns: Number of turns, at most the `undo_turns` of the pool and the turns of the episode.

        Returns:
            The observation text before these turns.

        Raises:
            UnknownSessionError: If the session is not open.
            RequestError: If the pool does not keep that many turns of the session.
        """
        with self._calls:
            session = self._session(session_id)
            past: Sequence[SessionSnapshot] = session.past or ()
            if not is_integer(turns) or turns < 1:
                raise RequestError(f"turns: expected an integer of at least 1, got {turns!r}.")
            if turns > len(past):
                raise RequestError(
                    f"turns: expected at most {len(past)}, the number of turns that can be taken back, got {turns}. "
                    f"The pool keeps the last {self._undo_turns} turns of an episode. For more, increase "
                    "SessionPool(undo_turns=...)."
                )
            session.used = time.monotonic()
            (text,) = session.game.restore([session], [past[-turns]])
            for _ in range(turns):
                session.past.pop()  # pyright: ignore[reportOptionalMemberAccess]
            return text or ""

    def save(self, ids: Sequence[str], key: bytes = b"") -> bytes:
        """Return several sessions as bytes, for `load` in this or another process.

        The bytes contain all parts of the sessions: states, texts, rewards, histories and the turns for `undo`. They
        contain no code, no session ids and no compiled programs.

        Args:
            ids: Different open sessions, of any games.
            key: Key of the signature. With a secret key, `load` rejects bytes that someone else wrote; without one, the
                signature detects damage only.

        Raises:
            UnknownSessionError: If an id is not that of an open session.
            RequestError: If an id is given twice, an option of a game is no plain data (for example, a level buffer),
                or the result would exceed `MOST_SAVED_BYTES`.
        """
        with self._calls:
            sessions = self._sessions_of(ids)
            owners = [session.game for session in sessions]
            games = list(dict.fromkeys(owners))
            saved = [
                SavedSession(games.index(session.game), session.seed, now, tuple(session.past or ()))
                for session, now in zip(sessions, per_game("snapshots", owners, sessions), strict=True)
            ]
        return saves.encode(list(map(_saved_game, games)), saved, key)

    def load(self, data: bytes, key: bytes = b"") -> list[str]:
        """Open the sessions of `save`, which continue exactly where they were.

        Args:
            data: Result of `save`. Reading it runs no code that it contains.
            key: The key that `save` was given.

        Returns:
            The new ids, in the order of the ids in `save`.

        Raises:
            RequestError: If the data are damaged, too large, of another version, or signed with another key.
            CapacityError: If the pool has no room for the sessions.
            UnknownIdError, OptionError, LevelError: If a game can't be made here; see `SessionPool.prepare`.
        """
        saved_games, saved_sessions = saves.decode(data, key)
        if len(saved_sessions) > self.capacity:
            raise CapacityError(f"expected at most {self.capacity} sessions, got {len(saved_sessions)} saved ones.")
        games = list(map(self._loaded_game, saved_games))
        owners = [games[saved.game] for saved in saved_sessions]
        trackers = per_game("trackers_of", owners, saved_sessions)
        with self._calls:
            used = time.monotonic()
            self._check_room(len(saved_sessions), used)
            sessions = [game.take(saved.seed, used) for game, saved in zip(owners, saved_sessions, strict=True)]
            try:
                for session, saved, tracker in zip(sessions, saved_sessions, trackers, strict=True):
                    session.reward_tracker = tracker
                    if self._undo_turns:
                        session.past = deque(map(self._kept, saved.past), maxlen=self._undo_turns)
                per_game("restore", owners, sessions, [self._kept(saved.now) for saved in saved_sessions])
            except BaseException:
                for session in sessions:
                    session.game.give_back(session)
                raise
            ids = [self._new_id() for _ in sessions]
            self._sessions.update(zip(ids, sessions, strict=True))
        return ids

    def _loaded_game(self, saved: SavedGame) -> GameTable:
        game = self._games.get(saved.env_id, saved.options)
        here = _saved_game(game)
        for name in ("text_version", "layout"):
            if getattr(saved, name) != getattr(here, name):
                raise RequestError(
                    f"data: {saved.env_id}: expected sessions of this version, got another {name}. Load them with the "
                    "version of jaxgym that saved them."
                )
        return game

    def _kept(self, snapshot: SessionSnapshot) -> SessionSnapshot:
        """Return a snapshot with a history exactly if this pool keeps them."""
        record = snapshot.record
        if not self._keeps_history:
            history = None
        else:
            history = record.history or (int(record.text is not None), (record.text or "")[:LONGEST], ())
        return snapshot._replace(record=record._replace(history=history))


def _saved_game(game: GameTable) -> SavedGame:
    return SavedGame(game.env_id, game.options, game.text_version, game.layout)
