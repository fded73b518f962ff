"""The errors of sessions; one sentence each: what was given, what is allowed, what to do."""


class SessionError(ValueError):
    """A call that a pool of sessions refuses; nothing was stepped."""


class UnknownSessionError(SessionError):
    """An id that no open session has."""


class ClosedSessionError(UnknownSessionError):
    """The id of a session that was closed, by a call or for idleness."""


class CapacityError(SessionError):
    """More sessions than a pool has room for."""


class RequestError(SessionError):
    """Arguments that do not fit together or are of another kind, such as a reply that is no string."""
