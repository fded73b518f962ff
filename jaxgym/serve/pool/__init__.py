"""The session pool, which all protocols use, and its parts."""

from jaxgym.serve.errors import CapacityError, ClosedSessionError, RequestError, SessionError, UnknownSessionError
from jaxgym.serve.pool.pool import SessionPool
from jaxgym.serve.sessions import SESSION_OPTIONS, Opening, TurnResult

__all__ = [
    "SESSION_OPTIONS",
    "CapacityError",
    "ClosedSessionError",
    "Opening",
    "RequestError",
    "SessionError",
    "SessionPool",
    "TurnResult",
    "UnknownSessionError",
]
