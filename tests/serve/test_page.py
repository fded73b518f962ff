"""The page at `/`: what browsers receive, watching sessions, and playing in the browser.

Starlette's client --> guard --> page, protocol --> the pool; the game is the tests' corridor
"""

import base64
import contextlib
import hashlib
import io
import re
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from starlette.testclient import TestClient

from jaxgym import text
from jaxgym.serve.agentgym.server import AgentGymApp
from jaxgym.serve.agentgym.wrappers import wrap
from jaxgym.serve.openenv.server import OpenEnvApp
from jaxgym.serve.openenv.sessions import SPARE
from jaxgym.serve.page import routes
from jaxgym.serve.page.views import view_of
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.pool.session import LONGEST, TURNS
from jaxgym.serve.web import http
from jaxgym.serve.web.guard import Guard
from jaxgym.serve.web.serving import AgentGym, OpenEnv
from tests.ids import short_names
from tests.serve import corridor

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
OPTIONS = {"rewards": "environment", "max_turns": 3 * TURNS}


@pytest.fixture(scope="module")
def hosted() -> http.Hosted:
    corridor.register()
    return http.host(OpenEnv(env="corridor", max_sessions=16), OPTIONS, spare=SPARE)


@contextlib.contextmanager
def openenv(hosted: http.Hosted, **settings: Any) -> Iterator[TestClient]:
    serving = OpenEnv(env="corridor", max_sessions=16, **settings)
    app = Guard(OpenEnvApp(serving, hosted), serving)
    with TestClient(http.loaded_at_start(lambda: app), base_url="http://127.0.0.1:8000") as client:
        yield client


@contextlib.contextmanager
def agentgym(hosted: http.Hosted, **settings: Any) -> Iterator[TestClient]:
    serving = AgentGym(env="corridor", **settings)
    wrappers = {"": wrap(hosted.env_id, hosted.pool, hosted.options)}
    own = AgentGymApp(hosted.pool, wrappers, separates_clients=serving.token_file is not None)
    app = Guard(routes.with_page(own, serving, [hosted], own.sessions), serving)
    with TestClient(http.loaded_at_start(lambda: app), base_url="http://127.0.0.1:8000") as client:
        yield client


@pytest.fixture
def client(hosted: http.Hosted) -> Iterator[TestClient]:
    with openenv(hosted) as client:
        yield client


def post(client: TestClient, path: str, **body: Any) -> Any:
    answer = client.post(f"/page/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def get(client: TestClient, path: str) -> Any:
    answer = client.get(f"/page/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def created(client: TestClient) -> str:
    """Open a session as a client of the protocol does; return its id."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
    return client.post("/mcp", json=asked).json()["result"]["session_id"]


def said(client: TestClient, session_id: str, message: str) -> None:
    params = {"name": "reply", "arguments": {"message": message}, "session_id": session_id}
    assert (
        "result"
        in client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).json()
    )


def token_file(folder: Path, *tokens: str) -> Path:
    path = folder / "tokens"
    path.write_text("\n".join(tokens))
    return path


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


# What browsers get.


def test_browsers_get_the_page_and_others_the_answer_of_the_protocol(hosted: http.Hosted, client: TestClient) -> None:
    assert client.get("/", headers=HTML).headers["content-type"].startswith("text/html")
    assert client.get("/", headers={"Accept": "application/json"}).json() == {"detail": "Not Found"}
    assert client.get("/metadata", headers=HTML).json()["name"] == "corridor"
    with agentgym(hosted) as other:
        assert other.get("/", headers=HTML).text == client.get("/", headers=HTML).text
        assert other.get("/").json().startswith("This is environment ")


def test_the_page_may_run_its_own_script_and_load_nothing_from_elsewhere(client: TestClient) -> None:
    answer = client.get("/", headers=HTML)
    policy = dict(rule.strip().split(" ", 1) for rule in answer.headers["content-security-policy"].split(";"))
    for kind in ("script", "style"):
        content = answer.text.split(f"<{kind}>")[1].split(f"</{kind}>")[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert policy[f"{kind}-src"] == f"'sha256-{digest}'"
    assert (policy["default-src"], policy["connect-src"], policy["img-src"]) == ("'none'", "'self'", "blob: data:")
    assert set(re.findall(r"\w+://[^\s\"']+", answer.text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(
        r"(inner|outer)HTML|insertAdjacentHTML|document\.write|\beval\b|srcdoc|<\w+[^>]* on\w+=", answer.text
    )
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_without_a_page_nothing_of_it_is_there(hosted: http.Hosted) -> None:
    with openenv(hosted, page=False) as client:
        assert client.get("/", headers=HTML).json() == {"detail": "Not Found"}
        assert client.get("/page/sessions").status_code == 404
    pool = SessionPool(4)
    opening = pool.open("corridor", 3, OPTIONS)
    session = pool.look(opening.id)
    assert session is not None
    assert session.history is None


def test_moves_have_buttons_where_they_are_directions() -> None:
    places = {
        name: [move.place for move in view_of(name, {}).buttons] for name in ("frozen_lake", "sudoku", "textcraft")
    }
    assert places == {"frozen_lake": ["left", "down", "right", "up"], "sudoku": [], "textcraft": []}
    assert {move.label: move.place for move in view_of("mystery_path_grid", {}).buttons} == {
        "wait": "middle",
        "turn left": "left",
        "turn right": "right",
        "forward": "up",
    }
    assert len({move.place for move in view_of("mystery_path", {"observation": "symbolic"}).buttons}) == 9


@pytest.mark.parametrize("name", short_names())
def test_every_game_has_an_example_that_it_understands(name: str) -> None:
    interface = text.make(name, levels="fresh")[2]
    assert isinstance(interface.parse(view_of(name, {}).example), text.ParsedAction)


def test_the_games_are_told_with_rules(client: TestClient) -> None:
    [game] = get(client, "games")["games"]
    assert (game["game"], game["moves"], game["example"]) == ("corridor", [], "")
    assert game["system_prompt"].startswith("Reach the goal")


# Watching.


def test_a_session_is_watched_by_an_id_that_only_lets_watch(hosted: http.Hosted, client: TestClient) -> None:
    session_id = created(client)
    [entry] = get(client, "sessions")["sessions"]
    path, frame_path = (f"{kind}?watch={entry['watch']}" for kind in ("session", "frame"))
    assert (entry["state"], entry["by"]) == ("waiting", "client")
    assert client.get(f"/page/{frame_path}").status_code == 204
    assert corridor.looked(hosted.pool, session_id).text is None
    for reply in ("<stay>", "What now?", "<stay>"):
        said(client, session_id, reply)
    seen = get(client, path)
    assert (seen["number"], seen["state"], len(seen["turns"])) == (3, "playing", 3)
    assert [turn["reply"] for turn in seen["turns"]] == ["<stay>", "What now?", "<stay>"]
    assert seen["turns"][1]["invalid_reply"] == "Say left, stay or right."
    assert "A" in seen["opening"]
    later = get(client, f"{path}&episode={seen['episode']}&number=2")
    assert [turn["number"] for turn in later["turns"]] == [3]
    assert get(client, f"{path}&episode={seen['episode']}&number={'9' * 50}")["turns"] == []
    scene = corridor.scene_of(hosted.pool, session_id)
    with Image.open(io.BytesIO(client.get(f"/page/{frame_path}").content)) as frame:
        assert frame.size == (84, 84)
        assert frame.convert("RGB").getpixel((0, 0)) == (int(scene.position),) * 3
    received = [client.get(f"/page/{where}").text for where in ("sessions", path, f"{path}&episode=x&number=-1")]
    assert not [answer for answer in received if session_id in answer]
    assert client.get(f"/page/session?watch={session_id}").json() == {"gone": True}
    for key, status in ((entry["watch"], 404), (session_id, 404), (None, 422), (3, 422)):
        assert client.post("/page/step", json={"key": key, "reply": "<stay>"}).status_code == status
    assert corridor.looked(hosted.pool, session_id).number == 3
    hosted.pool.close([session_id])
    assert get(client, path) == {"gone": True}
    assert client.get(f"/page/{frame_path}").status_code == 204
    assert get(client, "sessions") == {"sessions": [], "total": 0}


def test_watching_is_no_use_of_a_session(hosted: http.Hosted, client: TestClient) -> None:
    session_id = created(client)
    said(client, session_id, "<stay>")
    session = hosted.pool.look(session_id)
    assert session is not None
    used = session.used
    watch = get(client, "sessions")["sessions"][0]["watch"]
    get(client, f"session?watch={watch}")
    assert client.get(f"/page/frame?watch={watch}").status_code == 200
    assert session.used == used
    hosted.pool.close([session_id])


def test_a_session_remembers_so_many_turns_of_so_many_characters(hosted: http.Hosted) -> None:
    opening = hosted.pool.open(hosted.env_id, 3, hosted.options)
    session = hosted.pool.look(opening.id)
    assert session is not None
    assert session.history is not None
    for _ in range(TURNS + 5):
        hosted.pool.step_one(opening.id, "x" * (2 * LONGEST))
    turns = session.history.after(session.history.episode, 0)
    assert [turn["number"] for turn in turns] == list(range(6, TURNS + 6))
    assert {len(turn["reply"]) for turn in turns} == {LONGEST}
    hosted.pool.step([opening.id], ["<right right right>"])
    hosted.pool.reset([opening.id], [4])
    assert (session.history.episode, session.history.opening) == (2, session.text)
    assert session.history.after(1, 20) == []
    hosted.pool.close([opening.id])


# Playing.


def test_a_person_plays_an_episode_and_the_next_one(hosted: http.Hosted, client: TestClient) -> None:
    begun = post(client, "play", game="corridor", seed=3)
    assert (begun["seed"], begun["number"], begun["by"], begun["episode"]) == (3, 0, "person", 1)
    key = begun["key"]
    assert key not in client.get("/page/sessions").text
    turn = post(client, "step", key=key, reply="<right right right>", episode=1, number=0)
    while turn["state"] == "playing":
        turn = post(client, "step", key=key, reply="<right>", episode=1, number=turn["number"])
    assert (turn["state"], turn["total_reward"], len(turn["turns"])) == ("solved", 1.0, 1)
    assert get(client, f"session?watch={begun['watch']}")["state"] == "solved"
    again = post(client, "reset", key=key)
    assert (again["state"], again["episode"], again["turns"], again["watch"]) == ("playing", 2, [], begun["watch"])
    lost = [post(client, "step", key=key, reply="<left left left>") for _ in range(3)][-1]
    assert (lost["state"], lost["total_reward"]) == ("over", 0.0)
    assert post(client, "close", key=key) == {"closed": True}
    assert len(hosted.pool) == 0
    assert "is closed" in client.post("/page/step", json={"key": key, "reply": "<left>"}).json()["error"]


def test_people_have_room_for_a_few_and_leave_it_when_they_are_gone(
    hosted: http.Hosted, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [post(client, "play", game="corridor")["key"] for _ in range(routes.MOST_PLAYED)]
    full = client.post("/page/play", json={"game": "corridor"})
    assert (full.status_code, len(set(keys))) == (503, routes.MOST_PLAYED)
    created(client)
    time.sleep(0.01)
    monkeypatch.setattr(routes, "PLAY_SECONDS", 0.005)
    assert [entry["by"] for entry in get(client, "sessions")["sessions"]] == ["client"]
    assert len(hosted.pool) == 1
    hosted.pool.close(list(hosted.pool._sessions))


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("play", {"game": "chess"}, 404),
        ("play", {"game": "corridor", "seed": -1}, 422),
        ("play", {"game": "corridor", "seed": "3"}, 422),
        ("play", {"game": "corridor", "seed": 2**40}, 422),
        ("play", ["corridor"], 422),
    ],
)
def test_what_is_malformed_is_rejected_with_a_sentence(
    hosted: http.Hosted, client: TestClient, path: str, body: Any, status: int
) -> None:
    answer = client.post(f"/page/{path}", json=body)
    assert answer.status_code == status
    assert answer.json()["error"].endswith(".")
    assert len(hosted.pool) == 0


# Who is let in.


def test_other_sites_are_kept_out(hosted: http.Hosted, client: TestClient) -> None:
    assert client.get("/page/sessions", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    assert client.get("/page/sessions", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client.get("/page/sessions", headers={"Host": "rebound.example:8000"}).status_code == 403
    assert client.get("/page/sessions", headers={"Host": "[::1]:8000"}).status_code == 200
    assert client.get("/page/sessions", headers={"Host": "localhost:8000"}).status_code == 200
    with openenv(hosted, host="0.0.0.0", allowed_host=("games.example",)) as reached:
        assert reached.get("/page/sessions", headers={"Host": "games.example"}).status_code == 200
        assert reached.get("/page/sessions", headers={"Host": "other.example"}).status_code == 403
    form = client.post("/page/play", content='{"game": "corridor"}', headers={"Content-Type": "text/plain"})
    assert form.status_code == 415
    assert client.get("/page/sessions", headers={"Origin": "http://other.example"}).status_code == 403


def test_the_page_loads_without_the_token_and_its_calls_need_it(hosted: http.Hosted, tmp_path: Path) -> None:
    with openenv(hosted, token_file=token_file(tmp_path, "secret")) as client:
        assert 'data-token="yes"' in client.get("/", headers=HTML).text
        assert client.get("/").status_code == 401
        assert client.get("/page/games").status_code == 401
        assert client.get("/page/games", headers=bearer("secret")).status_code == 200
        assert client.get("/page/games", headers={**bearer("secret"), "Host": "a.example"}).status_code == 403
        key = client.post("/page/play", json={"game": "corridor"}, headers=bearer("secret")).json()["key"]
        assert client.post("/page/step", json={"key": key, "reply": "<left>"}).status_code == 401
        assert client.post("/page/close", json={"key": key}, headers=bearer("secret")).status_code == 200


def test_of_several_tokens_each_shows_its_own_sessions_only(hosted: http.Hosted, tmp_path: Path) -> None:
    tokens = token_file(tmp_path, "anne", "bob")
    with agentgym(hosted, token_file=tokens) as client:
        client.post("/create", headers=bearer("anne"))
        played = client.post("/page/play", json={"game": "corridor"}, headers=bearer("bob")).json()

        def seen(token: str) -> list[str]:
            return [entry["by"] for entry in client.get("/page/sessions", headers=bearer(token)).json()["sessions"]]

        assert (seen("anne"), seen("bob")) == (["client"], ["person"])
        path = f"/page/session?watch={played['watch']}"
        assert client.get(path, headers=bearer("anne")).json() == {"gone": True}
        assert client.get(path, headers=bearer("bob")).json()["by"] == "person"
        taken = client.post("/page/step", json={"key": played["key"], "reply": "<left>"}, headers=bearer("anne"))
        assert taken.status_code == 404
    with openenv(hosted, token_file=tokens) as client:
        asked = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
        client.post("/mcp", json=asked, headers=bearer("anne"))
        assert client.get("/page/sessions", headers=bearer("bob")).json()["total"] == 0
    hosted.pool.close(list(hosted.pool._sessions))


def test_the_page_is_a_file_of_the_package() -> None:
    assert resources.files("jaxgym.serve.page").joinpath("page.html").is_file()
