"""Sessions of games in words, for whoever speaks another protocol.

    pool       sessions of games, stepped together; what one is asked and answers stands in `sessions` and `errors`
    episodes   episodes on pools of this process, for those who play in it: `swift`, `trl`, `textarena`
    rollout    whole chats of a policy, kept on disk: `jaxgym rollout`
    web        what every server consists of; `command` is `jaxgym serve`
    page       what a browser gets at `/`
    openenv    a server of one game, and clients of all servers of OpenEnv
    agentgym   a server of several games, and the client side of AgentGym

What is named below is imported when it is first asked for, so that the command line is read without JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxgym.serve.errors import CapacityError, ClosedSessionError, RequestError, SessionError, UnknownSessionError
    from jaxgym.serve.pool import SessionPool
    from jaxgym.serve.sessions import SESSION_OPTIONS, Opening, Outcome, Standing

__all__ = [
    "SESSION_OPTIONS",
    "CapacityError",
    "ClosedSessionError",
    "Opening",
    "Outcome",
    "RequestError",
    "SessionError",
    "SessionPool",
    "Standing",
    "UnknownSessionError",
]

_HOMES = {
    "errors": ("CapacityError", "ClosedSessionError", "RequestError", "SessionError", "UnknownSessionError"),
    "pool": ("SessionPool",),
    "sessions": ("SESSION_OPTIONS", "Opening", "Outcome", "Standing"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f"jaxgym.serve.{home}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *(name for name in __all__ if name not in globals())]
