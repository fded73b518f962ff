"""The part of Ray that `RayPool` calls, with the actors in this process; a dead actor answers like one of Ray."""

import asyncio
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from typing import Any


class RayActorError(Exception):
    pass


class RayTaskError(Exception):
    def __init__(self, cause: BaseException) -> None:
        self.cause = cause


class Call(Future[Any]):
    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self).__await__()


class Handle:
    """Handle of an actor with an event loop of its own, and of its method `call`."""

    def __init__(self, make: Any) -> None:
        self._make, self.is_dead, self.call = make, False, self
        self._actor = make()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def restart(self) -> None:
        self._actor, self.is_dead = self._make(), False

    def remote(self, *arguments: Any) -> Call:
        made = Call()
        asyncio.run_coroutine_threadsafe(self._answer(made, arguments), self._loop)
        return made

    async def _answer(self, made: Call, arguments: Sequence[Any]) -> None:
        try:
            if self.is_dead:
                raise RayActorError
            made.set_result(await self._actor.call(*arguments))
        except RayActorError as error:
            made.set_exception(error)
        except BaseException as error:
            made.set_exception(RayTaskError(error))


class StandIn:
    """Module `ray` with named actors."""

    def __init__(self) -> None:
        self.exceptions = type("exceptions", (), {"RayActorError": RayActorError, "RayTaskError": RayTaskError})
        self.actors: dict[str, Handle] = {}

    def remote(self, kind: Any) -> Any:
        outer = self

        class Options:
            def __init__(self, name: str, **_: Any) -> None:
                self.name = name

            def remote(self, *arguments: Any) -> Handle:
                return outer.actors.setdefault(self.name, Handle(lambda: kind(*arguments)))

        return type("Kind", (), {"options": Options})

    def get(self, call: Call) -> Any:
        return call.result(60)

    def wait(self, calls: Sequence[Call], num_returns: int, timeout: float) -> tuple[list[Call], list[Call]]:
        del num_returns
        for call in calls:
            call.exception(timeout)
        return list(calls), []
