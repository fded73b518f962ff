"""Errors of sessions."""

from collections.abc import Mapping
from typing import Any

from jaxgym.errors import ContractError


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


class PartialStepError(ContractError):
    """Step of several sessions in which the text interface could not parse the replies of some.

    Attributes:
        results: By session id, the result of each session that has made its turn, and the error of each other session.
    """

    def __init__(self, message: str, results: Mapping[str, Any]):
        """Make an error with the message of the first session that failed."""
        super().__init__(message, results)
        self.results = results

    def __str__(self) -> str:
        return self.args[0]
