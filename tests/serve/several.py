"""A server of several workers that load nothing: `python -m tests.serve.several openenv`.

It answers in the forms of a protocol, without a game: each answer says which worker gave it.
"""

import dataclasses
import importlib
import json
import os
import sys
import threading
from typing import Any

from jaxgym.serve.web.http import Loading, Parts
from jaxgym.serve.web.serving import PROTOCOLS, Serving, listen
from jaxgym.serve.web.worker import Place
from jaxgym.serve.web.workers import serve

KEEPS_CONNECTIONS = False
WORKERS = "tests.serve.several"


def front(serving: Serving, workers: Any) -> Any:
    """The front of the protocol that the environment names."""
    protocol = os.environ["SEVERAL"]
    return importlib.import_module(f"jaxgym.serve.{protocol}.front").front(serving, workers)


class App:
    """Numbers that are created, and who answers; `/die` ends the process."""

    def __init__(self, place: Place, most: int):
        self.place, self.most = place, most
        self.numbers: list[int] = []
        self.next = place.number + place.created * place.workers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (await receive())["type"] == "websocket.receive":
                await send({"type": "websocket.send", "text": json.dumps(self.who())})
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        status, said = self.answer(scope["path"], json.loads(body or b"{}"))
        content = json.dumps(said).encode()
        headers = [(b"content-length", b"%d" % len(content)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def who(self) -> dict[str, int]:
        return {"worker": self.place.number, "pid": os.getpid()}

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        if path == "/die":
            os._exit(3)
        if path == "/create":
            if len(self.numbers) >= self.most:
                return 503, {"error": "full"}
            self.numbers.append(self.next)
            self.next += self.place.workers
            return 200, {"id": self.numbers[-1]}
        if path == "/list_envs":
            return 200, self.numbers
        if path == "/step_batch":
            if not isinstance(body.get("ids"), list):
                return 422, {"detail": []}
            return 200, [{"id": number, **self.who()} for number in body["ids"]]
        return 200, {**self.who(), "path": path}


def parts(serving: Serving, place: Place) -> Parts:
    """A worker; the first ones of a server fail where the environment says so."""

    def make() -> bool:
        if os.environ.get("SEVERAL_FAIL"):
            raise OSError("there is nothing to load")
        return threading.current_thread().daemon

    return Parts(App(place, serving.max_sessions), Loading(make))


def main() -> None:
    """Serves two workers at a free port."""
    os.environ["SEVERAL"] = sys.argv[1]
    serving = PROTOCOLS[sys.argv[1]](env="nothing", port=0, max_sessions=8, workers=2, page=False)
    serving = dataclasses.replace(serving, max_kilobytes=1)
    with listen(serving) as listener:
        serve(serving, WORKERS, listener)


if __name__ == "__main__":
    main()
