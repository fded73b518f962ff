"""Routes of the page at `/`: environments, sessions to watch, and sessions to play.

    browser  ─GET /page/sessions─>  the open sessions, each with an id for watching only
             ─POST /page/play────>  a new session, with a key for playing

Watching a session does not start it, step it or keep it open, and its session id is never sent. The server renders a
frame from the scene on the host, in a thread, once for all viewers.
"""

import asyncio
import base64
import hashlib
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib import resources
from typing import Annotated, Any

import pydantic
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from jaxgym.serve.errors import CapacityError
from jaxgym.serve.page.views import GameView, view_of
from jaxgym.serve.pool.session import Session
from jaxgym.serve.web.api import Api
from jaxgym.serve.web.guard import is_page_request
from jaxgym.serve.web.http import Hosted
from jaxgym.serve.web.serving import Serving

PREFIX = "/page/"
MOST_PLAYED = 8
"""Maximum number of open sessions played in browsers, over all browsers."""

PLAY_SECONDS = 900.0
"""Seconds without a reply after which a person's session is closed."""

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)

_SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of the page and of the responses to its calls."""

_MOST_LISTED = 100
_MOST_FRAMES = 32
_GONE = "This session is closed, by a call or because it was idle for too long. Start another one."


def with_page(
    app: ASGIApp, serving: Serving, games: Sequence[Hosted], sessions: Callable[[str], Iterable[str]]
) -> ASGIApp:
    """Return an app that serves the page and its calls, and passes other requests to the app of the protocol.

    Args:
        app: The app of the protocol.
        serving: The settings.
        games: The environments, on one pool that keeps histories.
        sessions: Takes a token, or an empty string; returns the ids of the sessions that its owner can watch.
    """
    if not serving.page:
        return app
    page, calls = _document(serving.token_file is not None), _Page(games, sessions)

    async def either(scope: Scope, receive: Receive, send: Send) -> None:
        is_call = scope["type"] == "http" and scope["path"].startswith(PREFIX)
        await (page if is_page_request(scope) else calls if is_call else app)(scope, receive, send)

    return either


def _document(needs_token: bool) -> Response:
    """Return the page, with headers that forbid other scripts, styles and servers."""
    page = resources.files("jaxgym.serve.page").joinpath("page.html").read_text("utf-8")
    page = page.replace('data-token="no"', 'data-token="yes"') if needs_token else page
    return Response(page, media_type="text/html", headers={**_SAFE, **_policy(page)})


def _policy(page: str) -> dict[str, str]:
    """Return the content security policy that allows no other script, style or server."""
    digests = {"script": "", "style": ""}
    for kind, content in _INLINE.findall(page):
        digests[kind] += f" 'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
    allowed = (
        *("default-src 'none'", f"script-src{digests['script']}", f"style-src{digests['style']}"),
        *("img-src blob: data:", "connect-src 'self'"),
        *("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
    )
    return {"Content-Security-Policy": "; ".join(allowed)}


_Number = Annotated[int, pydantic.Field(ge=0, strict=True)]


class _Page(Api):
    """The routes of the page; used in one event loop."""

    fault_key, headers, has_owners = "error", _SAFE, True

    def __init__(self, games: Sequence[Hosted], sessions: Callable[[str], Iterable[str]]):
        gets = {name: getattr(self, name) for name in ("games", "sessions", "session", "frame")}
        posts = {name: getattr(self, name) for name in ("play", "step", "reset", "close")}
        super().__init__(
            {("GET", PREFIX + name): call for name, call in gets.items()}
            | {("POST", PREFIX + name): call for name, call in posts.items()}
        )
        self._games, self._others = games, sessions
        self._pool = games[0].pool
        self._played: dict[str, tuple[str, str]] = {}  # id in the pool and token of the person, by the key for playing
        self._watches: dict[str, tuple[str, int]] = {}  # id for watching and number, by the pool's session id
        self._count = self._opening = 0
        self._views: dict[str, asyncio.Future[GameView]] = {}  # by environment id
        self._frames: dict[tuple[str, int, int], asyncio.Future[bytes | None]] = {}
        self._drawing = asyncio.Semaphore(1)

    def respond(self, scope: Scope, body: bytes) -> Awaitable[Response | tuple[int, Any]]:
        headers = dict(scope["headers"])
        if headers.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none"):
            raise HTTPException(403, "expected a call of this server's page, got one of another site.")
        if scope["method"] == "POST" and not headers.get(b"content-type", b"").startswith(b"application/json"):
            raise HTTPException(415, "expected the content type application/json, got another one.")
        return super().respond(scope, body)

    # To watch.

    async def games(self, owner: str) -> Any:
        listed = list[dict[str, Any]]()
        for game in self._games:
            view = await self._view_of(game)
            buttons = [button._asdict() for button in view.buttons]
            names = {"game": game.short_name, "system_prompt": game.system_prompt}
            listed.append({**names, "moves": buttons, "example": view.example})
        return {"games": listed}

    async def sessions(self, owner: str) -> Any:
        self._close_idle()
        shown = self._shown(owner)
        busiest = set(sorted(shown, key=lambda name: -shown[name].used)[:_MOST_LISTED])
        listed = [self._summary(name, session) for name, session in shown.items() if name in busiest]
        return {"sessions": listed, "total": len(shown)}

    async def session(self, owner: str, watch: str, episode: int = 0, number: int = 0) -> Any:
        found = self._found(owner, watch)
        return {"gone": True} if found is None else self._view(*found, episode, number)

    async def frame(self, owner: str, watch: str) -> Any:
        found = self._found(owner, watch)
        content = None if found is None or found[1].text is None else await self._drawn(*found)
        if content is None:
            return Response(status_code=204, headers=_SAFE)
        return Response(content, media_type="image/png", headers=_SAFE)

    # To play.

    async def play(self, owner: str, game: str, seed: _Number | None = None) -> Any:
        chosen = next((known for known in self._games if known.short_name == game), None)
        if chosen is None:
            names = ", ".join(known.short_name for known in self._games)
            raise HTTPException(404, f"Unknown environment. Use one of {names}.")
        self._close_idle()
        if len(self._played) + self._opening >= MOST_PLAYED:
            raise CapacityError(
                f"expected at most {MOST_PLAYED} sessions played in browsers, got one more. Close one, or wait."
            )
        self._opening += 1  # counted before the next call runs
        try:
            opening = await self._pool.aopen(chosen.env_id, seed, chosen.options)
        finally:
            self._opening -= 1
        key = secrets.token_urlsafe(24)
        self._played[key] = opening.id, owner
        return self._view_of_play(key, 0, 0)

    async def step(self, owner: str, key: str, reply: str, episode: _Number = 0, number: _Number = 0) -> Any:
        await self._pool.astep(self._own(owner, key), reply)
        return self._view_of_play(key, episode, number)

    async def reset(self, owner: str, key: str, seed: _Number | None = None) -> Any:
        await self._pool.areset(self._own(owner, key), seed)
        return self._view_of_play(key, 0, 0)

    async def close(self, owner: str, key: str) -> Any:
        name = self._own(owner, key)
        del self._played[key]
        await self._pool.aclose(name)
        return {"closed": True}

    def _own(self, owner: str, key: str) -> str:
        """Return the session of a key."""
        name, opened_by = self._played.get(key, ("", ""))
        if name not in self._pool or opened_by != owner:
            raise HTTPException(404, _GONE)
        return name

    def _view_of_play(self, key: str, episode: int, number: int) -> Any:
        name, _ = self._played.get(key, ("", ""))  # another call can have closed it
        session = self._pool.look(name)
        if session is None:
            raise HTTPException(404, _GONE)
        return {"key": key, **self._view(name, session, episode, number)}

    def _close_idle(self) -> None:
        last = time.monotonic() - PLAY_SECONDS
        for key, (name, _) in list(self._played.items()):
            session = self._pool.look(name)
            if session is None or session.used < last:
                del self._played[key]
                if session is not None:
                    self._pool.close([name])

    # Sessions, by their ids for watching.

    def _shown(self, owner: str) -> dict[str, Session]:
        """Return the open sessions that a person can watch, by the pool's ids."""
        own = [name for name, owner_of in self._played.values() if owner_of == owner]
        looked = {name: self._pool.look(name) for name in (*self._others(owner), *own)}
        for name in [name for name in self._watches if name not in self._pool]:
            del self._watches[name]
        return {name: session for name, session in looked.items() if session is not None}

    def _found(self, owner: str, watch: str) -> tuple[str, Session] | None:
        name = next((name for name, (known, _) in self._watches.items() if known == watch), None)
        session = None if name is None else self._shown(owner).get(name)
        return None if name is None or session is None else (name, session)

    def _summary(self, name: str, session: Session) -> dict[str, Any]:
        if name not in self._watches:
            self._count += 1
            self._watches[name] = secrets.token_urlsafe(12), self._count
        watch, count = self._watches[name]
        last, state = session.last, "waiting" if session.text is None else "playing"
        if last is not None:
            state = "solved" if last.is_solved else "over" if last.terminated else "truncated"
        return {
            "watch": watch,
            "count": count,
            "game": self._game_of(session).short_name,
            "by": "person" if any(played == name for played, _ in self._played.values()) else "client",
            "seed": session.seed,
            "number": session.number,
            "total_reward": session.total_reward,
            "state": state,
        }

    def _view(self, name: str, session: Session, episode: int, number: int) -> dict[str, Any]:
        """Return a session and its turns after turn `number` of an episode; all turns if the episode is another one."""
        history: Any = session.history  # its pool keeps histories
        kept = {"episode": history.episode, "opening": history.opening, "turns": history.after(episode, number)}
        return {**self._summary(name, session), **kept}

    def _game_of(self, session: Session) -> Hosted:
        env_id = session.game.env_id
        return next((game for game in self._games if game.env_id == env_id), self._games[0])

    # Frames.

    def _view_of(self, game: Hosted) -> asyncio.Future[GameView]:
        if game.env_id not in self._views:
            making = asyncio.to_thread(view_of, game.env_id, game.options)
            self._views[game.env_id] = asyncio.ensure_future(making)
        return self._views[game.env_id]

    async def _drawn(self, name: str, session: Session) -> bytes | None:
        history: Any = session.history
        at = name, history.episode, session.number
        if at not in self._frames:
            scene = session.game.scene(session)
            if len(self._frames) >= _MOST_FRAMES:
                del self._frames[next(iter(self._frames))]
            self._frames[at] = asyncio.ensure_future(self._draw(self._game_of(session), scene))
        try:
            # Other requests may wait for the same frame, so the cancellation of this one must not cancel it.
            return await asyncio.shield(self._frames[at])
        except Exception:
            self._frames.pop(at, None)
            raise

    async def _draw(self, game: Hosted, scene: Any) -> bytes | None:
        draw = (await self._view_of(game)).draw
        async with self._drawing:
            return await asyncio.to_thread(draw, scene)
