"""App of an OpenEnv server: WebSockets, each with a session, and the HTTP routes."""

import asyncio

from jaxgym.serve.openenv.conversation import Conversations
from jaxgym.serve.openenv.routes import routes
from jaxgym.serve.openenv.rpc import Methods
from jaxgym.serve.openenv.sessions import ClientSessions
from jaxgym.serve.page.routes import with_page
from jaxgym.serve.web.answers import answer
from jaxgym.serve.web.guard import Message, Receive, Send
from jaxgym.serve.web.http import Hosted
from jaxgym.serve.web.serving import Serving, token_of


class OpenEnvApp:
    """App with `/ws` and `/mcp` over WebSocket, and the HTTP routes."""

    def __init__(self, serving: Serving, hosted: Hosted):
        """Make the app of an environment."""
        self._sessions = sessions = ClientSessions(hosted, serving.max_sessions, serving.idle_seconds)
        methods = Methods(sessions, branching=getattr(serving, "branching", False))
        self._conversations = Conversations(sessions, methods)
        self._closing_idle: asyncio.Task[None] | None = None
        token = token_of(serving)
        # OpenEnv sessions do not belong to a token, so with several tokens the page shows no sessions of clients.
        is_of_many = token is not None and len(token.split()) > 1
        app = routes(serving, sessions, methods)
        self._http = with_page(app, serving, [hosted], lambda _: [] if is_of_many else sessions.ids())

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, or serve a WebSocket."""
        if self._closing_idle is None:
            self._closing_idle = asyncio.create_task(self._sessions.close_idle())
        path = scope["path"].rstrip("/") or "/"
        scope = scope if path == scope["path"] else {**scope, "path": path}
        if scope["type"] != "websocket":
            await self._http(scope, receive, send)
        elif path in ("/ws", "/mcp"):
            await self._conversations.talk(scope, receive, send)
        else:
            await receive()
            await answer({"error": "the WebSocket paths of this server are /ws and /mcp."}, 404)(scope, receive, send)
