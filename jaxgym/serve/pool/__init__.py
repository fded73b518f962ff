"""The pool of sessions, which every protocol stands on, and what it is made of."""

from jaxgym.serve.pool.pool import SessionPool

__all__ = ["SessionPool"]
