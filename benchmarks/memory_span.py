"""Measure the memory spans of scripted agents that remember a known number of commands.

    python -m benchmarks.memory_span --items 1 3 5 10 20

The agents play behind a small server with OpenAI's chat API, so that the whole path of a language model is tested. The
model `recall-5` remembers 5 commands. The last lines are a table in Markdown.
"""

import argparse
import contextlib
import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from jaxgym.serve.evaluation import IMAGE_TOKENS, Agent, EvaluationSettings, Recall, estimated_tokens, evaluate
from jaxgym.serve.pool import SessionPool

_NAME = "recall-"


class Handler(BaseHTTPRequestHandler):
    """Chat completions of the agent that the name of the model selects."""

    protocol_version = "HTTP/1.1"  # keeps connections open
    disable_nagle_algorithm = True
    wbufsize = -1  # one packet for headers and body

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""
        del format, args

    def do_POST(self) -> None:
        """Send the reply to a chat."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = Recall(int(body["model"].removeprefix(_NAME))).reply(body["messages"])
        message = {"role": "assistant", "content": reply}
        completion = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {
                "prompt_tokens": estimated_tokens(body["messages"], IMAGE_TOKENS),
                "completion_tokens": estimated_tokens([message], 0),
                "total_tokens": 0,
            },
        }
        sent = json.dumps(completion).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Serve the scripted agents on a free port; yield the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def measure(
    url: str, items: int, mode: str, episodes: int, pool: SessionPool, numbers: Sequence[int] = ()
) -> dict[str, Any]:
    """Evaluate the agent that remembers a number of commands; return its results in Mortar Mayhem."""
    settings = EvaluationSettings(episodes=episodes, numbers=tuple(numbers), observation_mode=mode)
    agent = Agent(model=url, name=f"{_NAME}{items}", temperature=0.0, max_tokens=16)
    with tempfile.TemporaryDirectory() as folder:
        return evaluate(agent, settings, Path(folder), pool)["tasks"]["mortar_mayhem"]


def main() -> None:
    """Measure each agent with texts and with images."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="+", default=[1, 3, 5, 10, 20])
    parser.add_argument("--episodes", type=int, default=2, help="episodes of each number of commands")
    arguments = parser.parse_args()
    lines = ["| commands remembered | observation | memory span | area |", "| ---: | --- | ---: | ---: |"]
    pool = SessionPool(capacity=EvaluationSettings().rollout.concurrency)  # compiles the games once for all agents
    with serving() as url:
        for items in arguments.items:
            for mode in ("text", "image"):
                task = measure(url, items, mode, arguments.episodes, pool)
                lines.append(f"| {items} | {mode} | {task['memory_span']} | {task['area']:.2f} |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
