"""Sessions of text environments, and the protocols and trainers that use them.

    pool       session pool; `sessions` has its options and results, `errors` its errors
    episodes   episodes on the shared pool of the process, for `swift`, `trl` and `textarena`
    rollout    chats of a policy, saved to disk: `jaxgym rollout`
    web        shared parts of the servers; `command` is `jaxgym serve`
    page       the web page at `/`
    openenv    OpenEnv and MCP server of one environment, and a client for ms-swift
    agentgym   AgentGym server of several environments

The names below are imported on first use, so that the command line can be read without JAX.
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
