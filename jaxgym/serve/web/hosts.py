"""Allowed hosts in `Host` and `Origin`, as a protection against DNS rebinding and pages of other sites."""

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any

_AUTHORITY = re.compile(rb"(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+))(?::([0-9]*))?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class KnownHosts:
    """Names of a server: its address, the names of this machine, and further allowed names."""

    def __init__(self, bound: str, allowed: Iterable[str]):
        """Store the names.

        Args:
            bound: The address that the server is bound to.
            allowed: Further names.
        """
        self._allowed = frozenset(name.lower() for name in allowed)
        self._own = self._allowed | {bound.lower()}

    def has(self, host: bytes, scope: Mapping[str, Any]) -> bool:
        """Return whether `Host` names this server."""
        name = _name_of(host)
        if name in _LOOPBACK or name in self._own:
            return True
        # With a wildcard address, the address of this connection counts. Only an IP address is compared, not a name.
        local = (scope.get("server") or ("",))[0]
        return name.endswith(".localhost") or (_is_address(name) and (name == local or ip_address(name).is_loopback))

    def has_page(self, origin: bytes, host: bytes | None, scope: Mapping[str, Any]) -> bool:
        """Return whether `Origin` is a page of this server or of an allowed host."""
        authority = origin.partition(b"://")[2]
        # Pages of another port of this machine belong to another server, so they are foreign.
        if host is not None and _port_of(authority) == _port_of(host):
            return bool(authority) and self.has(authority, scope)
        return bool(authority) and _name_of(authority) in self._allowed


def _port_of(authority: bytes) -> bytes:
    found = _AUTHORITY.fullmatch(authority)
    return (found and found[3]) or b""


def _name_of(authority: bytes) -> str:
    """Return the name in `NAME`, `NAME:PORT` or `[ADDRESS]:PORT`, in lower case; empty if it has another form."""
    found = _AUTHORITY.fullmatch(authority)
    return "" if found is None else (found[1] or found[2]).decode().lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
