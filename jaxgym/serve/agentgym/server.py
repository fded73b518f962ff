"""AgentGym's protocol over HTTP: `jaxgym serve agentgym --env textcraft --port 36001`.

    POST /create {}                                   ─>  {"id": 0, "observation": "Crafting commands: ...", ...}
    POST /step   {"id": 0, "action": "get 1 flax"}    ─>  {"observation": "Got 1 flax", "reward": 0.0, "done": false}

`jaxgym.serve.agentgym.wrapper` implements the calls. A malformed call returns status 422; an invalid call returns 200
and `{"error": ...}`, as AgentGym's clients expect; a full server returns 503.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from jaxgym.errors import OptionError
from jaxgym.serve.agentgym.wrapper import AgentGymWrapper
from jaxgym.serve.agentgym.wrappers import wrap
from jaxgym.serve.page.routes import with_page
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.web.api import Api, constant
from jaxgym.serve.web.http import freeze, served_options
from jaxgym.serve.web.serving import AgentGym

_SWEEPS = 4
"""Number of searches for idle sessions in each period of `idle_seconds`."""


class AgentGymApp(Api):
    """App of one environment at the root, or of several environments under prefixes."""

    session_status = 200  # AgentGym's clients expect it
    allows_empty = False

    def __init__(self, pool: SessionPool, wrappers: Mapping[str, AgentGymWrapper], separates_clients: bool = False):
        """Compile the programs of the environments; raises the errors of `SessionPool.prepare`.

        Args:
            pool: The pool of their sessions.
            wrappers: The wrappers by prefix, such as `"/textcraft"`; `""` is the root.
            separates_clients: Whether an environment belongs to the token of the client that created it.
        """
        self._pool, self.wrappers, self.has_owners = pool, dict(wrappers), separates_clients
        self._timer: asyncio.TimerHandle | None = None
        names = f"These are the environments {', '.join(wrappers)}."
        routes = {("GET", "/health"): constant({"status": "healthy"}), ("GET", "/"): constant(names)}
        for prefix, wrapper in wrappers.items():
            wrapper.prepare()
            routes |= {
                (method, f"{prefix}{path}".rstrip("/") or "/"): getattr(wrapper, name)
                for (method, path), name in wrapper.ROUTES.items()
            }
        super().__init__(routes)

    def respond(self, scope: Scope, body: bytes) -> Awaitable[Response | tuple[int, Any]]:
        """Return the response to a request; the first one starts the search for idle sessions."""
        if self._timer is None:
            self._close_idle()
        return super().respond(scope, body)

    def sessions(self, token: str) -> list[str]:
        """Return the session ids for the page; if environments belong to tokens, only those of the token."""
        owner = token if self.has_owners else None
        return [key for wrapper in self.wrappers.values() for key in wrapper.sessions(owner)]

    def _close_idle(self) -> None:
        """Close idle sessions and schedule the next search; runs in the event loop."""
        if self._pool.idle_seconds is not None:
            for wrapper in self.wrappers.values():
                wrapper.sweep()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._pool.idle_seconds / _SWEEPS, self._close_idle)


def load(serving: AgentGym) -> ASGIApp:
    """Make the app and compile its programs, which takes seconds; raises the errors of `SessionPool.prepare`."""
    # AgentGym's clients parse replies themselves and send the result, so lenient parsing is allowed.
    pool = SessionPool(
        serving.max_sessions, serving.idle_seconds or None, keeps_history=serving.page, allows_lenient=True
    )
    wrappers = dict[str, AgentGymWrapper]()
    for env, options in serving.games():
        wrapper = wrap(env, pool, served_options(options))
        if f"/{wrapper.name}" in wrappers:
            raise OptionError(f"expected different environments, got {env} twice. Serve one of them at another port.")
        wrappers[f"/{wrapper.name}"] = wrapper
    wrappers = {"": next(iter(wrappers.values()))} if len(wrappers) == 1 else wrappers
    app = AgentGymApp(pool, wrappers, separates_clients=serving.token_file is not None)
    freeze()
    hosted = [wrapper.hosted for wrapper in wrappers.values() if wrapper.hosted is not None]
    return with_page(app, serving, hosted, app.sessions) if hosted else app
