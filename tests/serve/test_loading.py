"""Clients that come while the game of a server is still being loaded."""

import json
import threading
import time

from websockets.sync.client import connect

from jaxgym.serve.openenv.plays import SPARE
from jaxgym.serve.openenv.server import OpenEnvApp
from jaxgym.serve.web import http
from jaxgym.serve.web.serving import OpenEnv, listen
from tests.serve import corridor


def test_pings_behind_the_first_frame_are_answered_while_a_game_loads() -> None:
    corridor.register()
    serving = OpenEnv(env="corridor", port=0, max_sessions=1)
    load = http.hosting(serving, {"scoring": "environment"}, spare=SPARE)

    def load_slowly() -> http.Hosted:
        hosted = load()
        time.sleep(2)
        return hosted

    loading = http.Loading(load_slowly)
    with listen(serving) as listener:
        app = OpenEnvApp(serving, loading)
        server = http.make_server(http.Parts(app, loading, app.drain), serving)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            where = f"ws://127.0.0.1:{listener.getsockname()[1]}/ws"
            with connect(where, proxy=None, ping_interval=0.3, ping_timeout=0.9) as client:
                client.send(json.dumps({"type": "reset", "data": {"seed": 3}}))
                begun = json.loads(client.recv(60))
                assert begun["data"]["observation"]["text"] == "....A..."
        finally:
            server.should_exit = True
            thread.join()
