"""Client of a session pool whose sessions are spread over Ray actors.

Each call goes to the actor that `jaxgym.serve.ray.placement` reads from the session id.
"""

import importlib
import itertools
import json
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jaxgym.errors import OptionError
from jaxgym.options import is_integer, plain
from jaxgym.serve import episodes
from jaxgym.serve.errors import CapacityError, ClosedSessionError, PartialStepError, RequestError, SessionError
from jaxgym.serve.pool.open_sessions import check_no_string, check_reply, checked_seed
from jaxgym.serve.ray import placement
from jaxgym.serve.ray.actor import Actor
from jaxgym.serve.sessions import Opening, TurnResult
from jaxgym.text import InvalidReply

Options = Mapping[str, Any]


class PartialCallError(ClosedSessionError):
    """Call for several sessions that some actors have rejected, or that reached a dead actor.

    Attributes:
        results: The results of the other actors, by session id. Their sessions have made their turn, except those with
            the error of a faulty parser as their result.
    """

    def __init__(self, message: str, results: Mapping[str, Any]):
        """Make an error; `results` are those of the other actors."""
        super().__init__(message, results)
        self.results = results

    def __str__(self) -> str:
        return self.args[0]


class _LostActorError(ClosedSessionError):
    """Actor that has died or can't be reached."""


class RayPool:
    """Run text episodes on several machines: each session lives on one actor of a Ray cluster.

    An actor is a process with a `SessionPool`, and steps the calls that arrive at the same time in one batch. Each
    process of the Ray job that makes a `RayPool` with the same name and number of actors uses the same actors. The
    actors end with the process that made them first.

    If an actor dies, its sessions end: calls for them raise `ClosedSessionError`. All other sessions continue, new
    sessions open on the other actors, and Ray restarts the actor. Episodes of trainers open another session and repeat
    their replies.

    The methods are those of `SessionPool`, without forks, saves, undo and frames.
    """

    def __init__(
        self,
        num_actors: int = 2,
        capacity: int = episodes.CAPACITY,
        idle_seconds: float | None = episodes.IDLE_SECONDS,
        *,
        name: str = "jaxgym",
        num_cpus: float = 1,
        start_seconds: float = 120,
    ):
        """Find the actors of a name, or start them, spread over the nodes of the cluster.

        Args:
            num_actors: Number of actors.
            capacity: Maximum number of open sessions of all actors together.
            idle_seconds: See `SessionPool`. Sessions of a process that died are closed in this way.
            name: Name of the actors. In a Ray job, pools with different names share nothing.
            num_cpus: CPUs of the cluster that each actor reserves. An actor uses one thread for each, at least one.
            start_seconds: Maximum time in seconds until all actors have started.

        Raises:
            ModuleNotFoundError: If Ray is not installed.
            RequestError: If `num_actors` or `capacity` is invalid.
            TimeoutError: If an actor does not start in time.
        """
        if not is_integer(num_actors) or num_actors < 1:
            raise RequestError(f"num_actors: expected an integer of at least 1, got {num_actors!r}.")
        if not is_integer(capacity) or capacity < num_actors:
            raise RequestError(f"capacity: expected an integer of at least {num_actors}, got {capacity!r}.")
        self._ray = _imported_ray()
        self._next = itertools.count(random.randrange(num_actors))  # other processes begin with other actors
        # The actors leave the accelerators to other processes. XLA makes one thread for each core of the machine unless
        # `NPROC` is the number of threads. Both variables have to be set before the process imports JAX.
        variables = {"JAX_PLATFORMS": "cpu", "NPROC": str(max(1, int(num_cpus)))}
        make = self._ray.remote(Actor).options
        self._actors: list[Any] = [
            make(
                name=f"{name}-{number}-of-{num_actors}",
                get_if_exists=True,
                max_restarts=-1,
                num_cpus=num_cpus,
                scheduling_strategy="SPREAD",
                runtime_env={"env_vars": variables},
            ).remote(number, -(-capacity // num_actors), idle_seconds)
            for number in range(num_actors)
        ]
        started, waiting = self._ray.wait(
            [self._call(number, "__len__") for number in range(num_actors)],
            num_returns=num_actors,
            timeout=start_seconds,
        )
        if waiting:
            raise TimeoutError(
                f"expected {num_actors} actors within {start_seconds:g} s, got {len(started)}. Free some CPUs of the "
                "Ray cluster, or use fewer actors or num_cpus=0."
            )

    def __len__(self) -> int:
        """Return the number of open sessions on the actors that can be reached."""
        return sum(self._from_all("__len__"))

    def prepare(self, name: str, options: Options | None = None) -> str:
        """Make a game and compile its programs on all actors; see `SessionPool.prepare`."""
        return self._from_all("prepare", name, _plain(options))[0]

    def difficulties(self) -> list[dict[str, Any]]:
        """Return the adaptive difficulties of all actors; see `SessionPool.difficulties`.

        Each actor adapts to the levels that it gets: those with the same remainder of the seed.
        """
        return [each for part in self._from_all("difficulties") for each in part]

    # Openings.

    def open(self, name: str, seed: int | None = None, options: Options | None = None) -> Opening:
        """Open a session; see `open_many`."""
        return self.open_many(name, [seed], options)[0]

    def open_many(self, name: str, seeds: Sequence[int | None], options: Options | None = None) -> list[Opening]:
        """Open one session for each seed, in equal numbers on the actors.

        Args:
            name: See `SessionPool.open_many`, also for the errors.
            seeds: See `SessionPool.open_many`.
            options: See `SessionPool.prepare`. Values have to be plain data, so there are no level buffers.

        Raises:
            CapacityError: If all actors are full.
            ClosedSessionError: If no actor can be reached.
        """
        options, num_actors, seeds = _plain(options), len(self._actors), list(seeds)
        if options.get("adapt") is None:
            parts = placement.shares(len(seeds), next(self._next) % num_actors, num_actors)
        else:  # the controller of an actor keeps a group at one difficulty
            parts = placement.shares_of_seeds([checked_seed(seed) for seed in seeds], num_actors)
        own = {number: [seeds[index] for index in part] for number, part in parts.items()}
        calls = {number: self._call(number, "open_many", name, own[number], options) for number in parts}
        opened: dict[int, Opening] = {}
        try:
            for number, part in parts.items():
                made = self._opened(number, calls.pop(number), name, own[number], options)
                opened.update(zip(part, made, strict=True))
        except BaseException:
            others = [opening for number, call in calls.items() for opening in self._opened_anyway(number, call)]
            self.close([opening.id for opening in (*opened.values(), *others)])
            raise
        return [opened[index] for index in range(len(seeds))]

    def _opened(self, number: int, call: Any, name: str, seeds: Sequence[int | None], options: Options) -> Any:
        try:
            return self._get(number, call)
        except (_LostActorError, CapacityError) as error:
            failed: SessionError = error
        for other in placement.others(number, len(self._actors)):
            try:
                return self._get(other, self._call(other, "open_many", name, seeds, options))
            except (_LostActorError, CapacityError) as error:
                failed = error
        raise failed

    def _opened_anyway(self, number: int, call: Any) -> list[Opening]:
        try:
            return self._get(number, call)
        except Exception:  # the first error is raised
            return []

    async def aopen(self, name: str, seed: int | None = None, options: Options | None = None) -> Opening:
        """Open a session without blocking the event loop; see `open_many`."""
        options, num_actors = _plain(options), len(self._actors)
        first = (next(self._next) if seed is None or options.get("adapt") is None else checked_seed(seed)) % num_actors
        failed: SessionError | None = None
        for number in (first, *placement.others(first, num_actors)):
            try:
                return await self._aget(number, self._call(number, "aopen", name, seed, options))
            except (_LostActorError, CapacityError) as error:
                failed = error
        raise failed or CapacityError("expected an actor, got none.")

    # Turns.

    def step(self, ids: Sequence[str], replies: Sequence[str | InvalidReply]) -> list[TurnResult]:
        """Make one turn in each of several sessions, with one call for each actor; see `SessionPool.step`.

        Raises:
            UnknownSessionError: If an id is not that of an open session.
            RequestError: See `SessionPool.step`.
            PartialCallError: If only some of the actors have made their turns.
            PartialStepError: If the parser of your own text interface fails. All other sessions have made their turn.
        """
        check_no_string("replies", replies)
        for reply in replies:
            check_reply(reply)
        return self._by_actor("step", TurnResult, ids, "replies", replies)

    def reset(self, ids: Sequence[str], seeds: Sequence[int | None]) -> list[Opening]:
        """Start another episode in each of several sessions; see `SessionPool.reset`, and `step` for the errors."""
        return self._by_actor("reset", Opening, ids, "seeds", seeds)

    def _by_actor(self, method: str, kind: Any, ids: Sequence[str], name: str, values: Sequence[Any]) -> list[Any]:
        check_no_string("ids", ids)
        if len(ids) != len(values):
            raise RequestError(f"{name}: expected one for each of {len(ids)} ids, got {len(values)}.")
        parts = placement.places(ids, len(self._actors))
        if len(set(ids)) < len(ids):
            raise RequestError("ids: expected different sessions, got one twice.")
        calls = {
            number: self._call(number, method, [ids[index] for index in part], [values[index] for index in part])
            for number, part in parts.items()
        }
        results: dict[str, Any] = {}
        failed: SessionError | None = None
        unparsed: PartialStepError | None = None
        for number, call in calls.items():
            try:
                made = map(kind._make, zip(*self._get(number, call), strict=True))
                results.update(zip([ids[index] for index in parts[number]], made, strict=True))
            except PartialStepError as error:
                unparsed = unparsed or error
                results.update(error.results)
            except SessionError as error:
                failed = failed or error
        if failed is not None and results:
            raise PartialCallError(str(failed), results) from failed
        if failed is not None:
            raise failed
        if unparsed is not None:
            raise PartialStepError(str(unparsed), results) from unparsed
        return [results[session_id] for session_id in ids]

    def step_one(self, session_id: str, reply: str | InvalidReply) -> TurnResult:
        """Make a turn in one session, batched with other calls of its actor; see `SessionPool.step`."""
        check_reply(reply)
        number = placement.number_of(session_id, len(self._actors))
        return self._get(number, self._call(number, "astep", session_id, reply))

    async def astep(self, session_id: str, reply: str | InvalidReply) -> TurnResult:
        """Make a turn in one session without blocking the event loop; see `step_one`."""
        check_reply(reply)
        number = placement.number_of(session_id, len(self._actors))
        return await self._aget(number, self._call(number, "astep", session_id, reply))

    def close(self, ids: Sequence[str]) -> None:
        """Close sessions, without waiting for the actors; sessions that are not open are ignored.

        Raises:
            UnknownSessionError: If an id is not that of a pool with so many actors.
        """
        check_no_string("ids", ids)
        for number, part in placement.places(ids, len(self._actors)).items():
            self._call(number, "close_known", [ids[index] for index in part])

    # Calls of actors.

    def _from_all(self, method: str, *arguments: Any) -> list[Any]:
        """Return the results of all actors that can be reached; raise `ClosedSessionError` if there is none."""
        calls = [self._call(number, method, *arguments) for number in range(len(self._actors))]
        results, failed = [], None
        for number, call in enumerate(calls):
            try:
                results.append(self._get(number, call))
            except _LostActorError as error:
                failed = error
        if failed is not None and not results:
            raise failed
        return results

    def _call(self, number: int, method: str, *arguments: Any) -> Any:
        return self._actors[number].call.remote(method, *arguments)

    def _get(self, number: int, call: Any) -> Any:
        with self._errors(number):
            return self._ray.get(call)

    async def _aget(self, number: int, call: Any) -> Any:
        with self._errors(number):
            return await call

    @contextmanager
    def _errors(self, number: int) -> Iterator[None]:
        """Raise the exceptions of the pool in place of those of Ray."""
        try:
            yield
        except self._ray.exceptions.RayActorError as error:
            raise _LostActorError(
                f"Actor {number} of the pool has died or can't be reached ({type(error).__name__}), and its sessions "
                "have ended. Open other sessions."
            ) from error
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None


_sharing = threading.Lock()
_shared: list[tuple[int, RayPool]] = []


def share(num_actors: int) -> RayPool:
    """Play all episodes of this process's trainer adapters on a pool of so many actors; return the pool.

    Call it before the first episode.

    Raises:
        RequestError: If the process has such a pool with another number of actors.
        ModuleNotFoundError, TimeoutError: See `RayPool`.
    """
    with _sharing:
        if not _shared:
            pool = RayPool(num_actors)
            episodes.use_pool(pool)
            _shared.append((num_actors, pool))
        known, pool = _shared[0]
    if known != num_actors:
        raise RequestError(f"num_actors: expected {known} as in the first call of share, got {num_actors}.")
    return pool


def _plain(options: Options | None) -> dict[str, Any]:
    """Return a copy of options; raise `OptionError` for a level buffer, which each call would send to the actor."""
    try:
        json.dumps(dict(options or {}), default=plain)
    except (TypeError, ValueError) as error:
        raise OptionError(f"options: expected plain data, got {error}. Use levels='fresh'.") from error
    return dict(options or {})


def _imported_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'jaxgym.serve.ray: Ray is not installed. Install it with: pip install "jaxgym[ray]".', name=error.name
        ) from error
