"""What stands behind the page at `/`: the games, the sessions that can be watched, and those that people play.

    browser  ─GET /page/sessions─>  who plays, each under an id that lets watch and nothing else
             ─POST /page/play────>  a session of one's own, under a key that lets play

A session that is watched is only looked at: it is not started, stepped or kept open by that, and its own id is told to
nobody. Its frame is drawn from what the host knows of it already, in a thread, once for all who watch.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jaxgym.serve.errors import CapacityError
from jaxgym.serve.page.boards import Board, Served
from jaxgym.serve.page.document import SAFE
from jaxgym.serve.page.looks import Looks, looks_of
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.pool.games import Session
from jaxgym.serve.web.answers import answer, refusals
from jaxgym.serve.web.guard import App, Message, Receive, Send, token_of_request
from jaxgym.serve.web.serving import Serving

PREFIX = "/page/"
MOST_PLAYED = 8
"""Sessions that people may play at a time, all together."""

PLAY_SECONDS = 900.0
"""After so long without a reply a person's session is closed."""

_MOST_LISTED = 100
_MOST_FRAMES = 32
_GONE = "this session was closed, perhaps since it was idle for too long; start another one."


def with_page(app: App, serving: Serving, served: Served) -> App:
    """Returns an app that answers what the page asks for, and leaves all else to another.

    Args:
        app: The app of the protocol.
        serving: Whether there is a page, and who is let in.
        served: The sessions and games to watch and play.
    """
    if not serving.page:
        return app
    page = _routes(_Page(served))

    async def either(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            response = _answer({"error": "these calls are for the page of this server."}, 403)
        elif scope["method"] == "POST" and not headers.get("content-type", "").startswith("application/json"):
            response = _answer({"error": "send JSON, with that content type."}, 415)
        else:
            response = page
        await response(scope, receive, send)

    return either


def _routes(page: "_Page") -> Starlette:
    app = Starlette(
        routes=[
            Route("/page/games", page.games),
            Route("/page/sessions", page.sessions),
            Route("/page/sessions/{watch}", page.session),
            Route("/page/sessions/{watch}/frame", page.frame),
            Route("/page/play", page.play, methods=["POST"]),
            Route("/page/step", page.step, methods=["POST"]),
            Route("/page/reset", page.reset, methods=["POST"]),
            Route("/page/close", page.close, methods=["POST"]),
        ],
        exception_handlers=refusals("error", SAFE),
    )
    app.router.redirect_slashes = False  # a redirect repeats what was asked for
    return app


class _Play:
    """A session that a person plays; `id` is the pool's, `owner` what was brought in `Authorization`."""

    __slots__ = ("board", "id", "owner")

    def __init__(self, session_id: str, owner: str, board: Board):
        self.id, self.owner, self.board = session_id, owner, board


class _Page:
    """The routes of the page; used in one event loop."""

    def __init__(self, served: Served):
        self._served = served
        self._plays: dict[str, _Play] = {}
        self._watches: dict[str, tuple[str, int]] = {}  # of the pool's ids: an id to watch it by, and its number
        self._count = self._opening = 0
        self._looks: dict[str, asyncio.Future[Looks]] = {}  # of the ids of environments
        self._frames: dict[tuple[str, int, int], asyncio.Future[bytes | None]] = {}
        self._drawing = asyncio.Semaphore(1)

    # To be watched.

    async def games(self, _: Request) -> Response:
        served = self._served
        told = list[dict[str, Any]]()
        for board in served.boards:
            looks = await self._looks_of(board)
            moves = [{"label": move.label, "place": move.place, "reply": move.reply} for move in looks.moves]
            told.append(
                {"game": board.short_name, "instructions": board.instructions, "moves": moves, "example": looks.example}
            )
        return _answer({"games": told})

    async def sessions(self, request: Request) -> Response:
        served = self._served
        self._close_idle(served.pool)
        shown = self._shown(served, _owner(request))
        busiest = set(sorted(shown, key=lambda name: -shown[name].used)[:_MOST_LISTED])
        told = [self._summary(served, name, session) for name, session in shown.items() if name in busiest]
        return _answer({"sessions": told, "total": len(shown)})

    async def session(self, request: Request) -> Response:
        served = self._served
        found = self._found(served, request)
        if found is None:
            return _answer({"gone": True})
        after = [request.query_params.get(name, "0") for name in ("episode", "number")]
        episode, number = (int(text) if text.isascii() and text.isdecimal() else 0 for text in after)
        return _answer(self._view(served, *found, episode, number))

    async def frame(self, request: Request) -> Response:
        served = self._served
        found = self._found(served, request)
        content = None
        if found is not None and found[1].text is not None:
            content = await self._drawn(served, *found)
        if content is None:
            return Response(status_code=204, headers=SAFE)
        return Response(content, media_type="image/png", headers=SAFE)

    # To be played.

    async def play(self, request: Request) -> Response:
        served, given, owner = self._served, await _body(request), _owner(request)
        board = next((board for board in served.boards if board.short_name == given.get("game")), None)
        if board is None:
            known = ", ".join(board.short_name for board in served.boards)
            raise HTTPException(404, f"no such game is served; give one of {known}.")
        self._close_idle(served.pool)
        seed = _seed(given)
        if len(self._plays) + self._opening >= MOST_PLAYED:
            raise CapacityError(f"people play {MOST_PLAYED} sessions already; leave one, or wait for one.")
        self._opening += 1  # its place is taken before another call is answered
        try:
            opening = await served.pool.aopen(board.name, seed, board.options)
        finally:
            self._opening -= 1
        key = secrets.token_urlsafe(24)
        self._plays[key] = _Play(opening.id, owner, board)
        return self._told_of_play(served, key, 0, 0)

    async def step(self, request: Request) -> Response:
        served, given, play = await self._play(request)
        reply = given.get("reply")
        if not isinstance(reply, str):
            raise HTTPException(422, "give the reply, a string.")
        await served.pool.astep(play.id, reply)
        return self._told_of_play(served, given["key"], _number(given, "episode"), _number(given, "number"))

    async def reset(self, request: Request) -> Response:
        served, given, play = await self._play(request)
        await served.pool.areset(play.id, _seed(given))
        return self._told_of_play(served, given["key"], 0, 0)

    async def close(self, request: Request) -> Response:
        served, given, play = await self._play(request)
        del self._plays[given["key"]]
        await served.pool.aclose(play.id)
        return _answer({"closed": True})

    async def _play(self, request: Request) -> tuple[Served, dict[str, Any], _Play]:
        served, given = self._served, await _body(request)
        key = given.get("key")
        play = self._plays.get(key) if isinstance(key, str) else None
        if play is None or play.owner != _owner(request) or served.pool.look(play.id) is None:
            raise HTTPException(404, _GONE)
        return served, given, play

    def _told_of_play(self, served: Served, key: str, episode: int, number: int) -> Response:
        play = self._plays.get(key)  # it may have been closed since
        session = None if play is None else served.pool.look(play.id)
        if play is None or session is None:
            raise HTTPException(404, _GONE)
        return _answer({"key": key, **self._view(served, play.id, session, episode, number)})

    def _close_idle(self, pool: SessionPool) -> None:
        last = time.monotonic() - PLAY_SECONDS
        for key, play in list(self._plays.items()):
            session = pool.look(play.id)
            if session is None or session.used < last:
                del self._plays[key]
                if session is not None:
                    pool.close([play.id])

    # Sessions, by the ids that let watch them.

    def _shown(self, served: Served, owner: str) -> dict[str, Session]:
        """Returns the open sessions that someone may watch, by the pool's ids."""
        own = [play.id for play in self._plays.values() if play.owner == owner]
        looked = {name: served.pool.look(name) for name in (*served.sessions(owner), *own)}
        for name in [name for name in self._watches if name not in served.pool]:
            del self._watches[name]
        return {name: session for name, session in looked.items() if session is not None}

    def _found(self, served: Served, request: Request) -> tuple[str, Session] | None:
        watch = request.path_params["watch"]
        name = next((name for name, (known, _) in self._watches.items() if known == watch), None)
        session = None if name is None else self._shown(served, _owner(request)).get(name)
        return None if name is None or session is None else (name, session)

    def _summary(self, served: Served, name: str, session: Session) -> dict[str, Any]:
        if name not in self._watches:
            self._count += 1
            self._watches[name] = secrets.token_urlsafe(12), self._count
        watch, count = self._watches[name]
        last, state = session.last, "waiting" if session.text is None else "playing"
        if last is not None:
            state = "solved" if last.is_solved else "over" if last.terminated else "cut off"
        by = "person" if any(play.id == name for play in self._plays.values()) else "client"
        told = {
            "watch": watch,
            "count": count,
            "game": _board_of(served, session).short_name,
            "by": by,
            "seed": session.seed,
        }
        return {**told, "number": session.number, "total_reward": session.total_reward, "state": state}

    def _view(self, served: Served, name: str, session: Session, episode: int, number: int) -> dict[str, Any]:
        """Returns a session and the turns that follow one; all that are remembered if that is of another episode."""
        history = session.history
        told = self._summary(served, name, session)
        if history is None:
            return {**told, "episode": 0, "opening": session.text or "", "turns": []}
        turns = [turn._asdict() for turn in history.after(episode, number)]
        return {**told, "episode": history.episode, "opening": history.opening, "turns": turns}

    # Frames.

    def _looks_of(self, board: Board) -> asyncio.Future[Looks]:
        if board.short_name not in self._looks:
            making = asyncio.to_thread(looks_of, board.name, board.options)
            self._looks[board.short_name] = asyncio.ensure_future(making)
        return self._looks[board.short_name]

    async def _drawn(self, served: Served, name: str, session: Session) -> bytes | None:
        episode = 0 if session.history is None else session.history.episode
        at = name, episode, session.number
        if at not in self._frames:
            scene = session.game.scene(session)
            if len(self._frames) >= _MOST_FRAMES:
                del self._frames[next(iter(self._frames))]
            self._frames[at] = asyncio.ensure_future(self._draw(_board_of(served, session), scene))
        try:
            # Another may wait for the same frame when this one has gone.
            return await asyncio.shield(self._frames[at])
        except Exception:
            self._frames.pop(at, None)
            raise

    async def _draw(self, board: Board, scene: Any) -> bytes | None:
        draw = (await self._looks_of(board)).draw
        async with self._drawing:
            return await asyncio.to_thread(draw, scene)


def _board_of(served: Served, session: Session) -> Board:
    """Returns the game of a session; a server has one of each environment."""
    env_id = session.game.env_id
    return next((board for board in served.boards if board.env_id == env_id), served.boards[0])


def _owner(request: Request) -> str:
    return token_of_request(request.scope["headers"]).decode("latin-1")


def _seed(given: Mapping[str, Any]) -> int | None:
    seed = given.get("seed")
    return None if seed is None else _number(given, "seed")


def _number(given: Mapping[str, Any], name: str) -> int:
    number = given.get(name, 0)
    if type(number) is not int or number < 0:
        raise HTTPException(422, f"{name} is no integer from 0 up.")
    return number


async def _body(request: Request) -> dict[str, Any]:
    try:
        given = json.loads(await request.body())
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise HTTPException(422, "send a JSON object.")
    return given


def _answer(content: Any, status: int = 200) -> Response:
    return answer(content, status, SAFE)
