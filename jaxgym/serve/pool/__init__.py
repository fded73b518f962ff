"""The session pool, which all protocols use, and its parts."""

from jaxgym.serve.errors import (
    CapacityError,
    ClosedSessionError,
    PartialStepError,
    RequestError,
    SessionError,
    UnknownSessionError,
)
from jaxgym.serve.pool.pool import SessionPool
from jaxgym.serve.pool.saves import MOST_SAVED_BYTES
from jaxgym.serve.sessions import SESSION_OPTIONS, Opening, TurnResult

__all__ = [
    "MOST_SAVED_BYTES",
    "SESSION_OPTIONS",
    "CapacityError",
    "ClosedSessionError",
    "Opening",
    "PartialStepError",
    "RequestError",
    "SessionError",
    "SessionPool",
    "TurnResult",
    "UnknownSessionError",
]
