"""Sessions of text games, and the protocols and trainers that use them.

    pool       sessions of games, stepped together; `sessions` and `errors` have what they take, return and raise
    episodes   episodes on a pool of this process, for `swift`, `trl` and `textarena`
    rollout    whole chats of a policy, kept on disk: `jaxgym rollout`
    web        the parts that all servers share; `command` is `jaxgym serve`
    page       the page that a browser gets at `/`
    openenv    a server of one game that speaks OpenEnv and MCP, and a client for ms-swift
    agentgym   a server of several games that speaks AgentGym

The names below are imported on first use, so that the command line is read without JAX.
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
