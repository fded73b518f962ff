"""Small chat-completions server that fails in the ways of real ones."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], Any]
"""Takes the body of a request; returns a content, a completion, a status, bytes to send, or seconds to stall."""


def completion(content: Any, reason: str = "stop", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": content}}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "tiny", "choices": [choice], **more}


def _body(said: Any) -> Any:
    return said if isinstance(said, dict) else completion(said)


class _Server(ThreadingHTTPServer):
    request_queue_size = 256  # tests connect many clients at once


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Serve on a free port; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            del format, args

        def do_GET(self) -> None:
            self._send(200, json.dumps({"object": "list", "data": [{"id": "tiny", "object": "model"}]}).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = answer(body)
            if isinstance(said, float):
                time.sleep(said)
                return
            if isinstance(said, int):
                self._send(said, json.dumps({"error": {"message": f"status {said}"}}).encode())
            else:
                self._send(200, said if isinstance(said, bytes) else json.dumps(_body(said)).encode())

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
