"""Errors of sessions."""


class SessionError(ValueError):
    """Invalid call of a session pool; no session has changed."""


class UnknownSessionError(SessionError):
    """Id of no open session."""


class ClosedSessionError(UnknownSessionError):
    """Id of a session that was closed, by a call or because it was idle."""


class CapacityError(SessionError):
    """More sessions than the capacity of a pool."""


class RequestError(SessionError):
    """Invalid arguments, such as a reply that is not a string."""
