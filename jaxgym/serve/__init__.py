"""Sessions of games in words, for whoever speaks another protocol.

What stands here is imported when it is first asked for, so that a server can listen before JAX is there.
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
