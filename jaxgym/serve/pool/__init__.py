"""The session pool, which all protocols use, and its parts."""

from jaxgym.serve.pool.pool import SessionPool

__all__ = ["SessionPool"]
