"""Headless Chromium, driven over the part of its DevTools protocol that the test of a page needs.

A library for this would bring a browser or a runtime of its own; the WebSocket client is already a dependency.
"""

import contextlib
import itertools
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)
KEYS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Tab": 9}
SECONDS = 20.0


class Tab:
    """A tab.

    Attributes:
        complaints: Errors and warnings of its console, and uncaught exceptions.
    """

    def __init__(self, socket: ClientConnection):
        self._socket, self._numbers = socket, itertools.count()
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a call."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(SECONDS))
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        match message:
            case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": details}}:
                self.complaints.append(json.dumps(details))
            case {"method": "Runtime.consoleAPICalled", "params": {"type": "error" | "warning", "args": values}}:
                self.complaints.append(json.dumps(values))
            case {"method": "Log.entryAdded", "params": {"entry": {"level": "error" | "warning"} as entry}}:
                self.complaints.append(f"{entry['text']} {entry.get('url', '')}")

    def open(self, address: str, width: int, height: int = 800) -> None:
        """Load a page in a window of a given size, without a cache."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.protocol === 'http:'")

    def get(self, expression: str) -> Any:
        """Return the value of an expression."""
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (expression, result)
        return result["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + SECONDS
        while not self.get(f"Boolean({condition})"):
            assert time.monotonic() < end, f"{condition}; {self.complaints}; {self.get('document.body.innerText')}"
            time.sleep(0.02)

    def press(self, *keys: str) -> None:
        """Press keys, one after another."""
        for key in keys:
            code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
            self.ask("Input.dispatchKeyEvent", type="keyDown", **code, **({"text": "\r"} if key == "Enter" else {}))
            self.ask("Input.dispatchKeyEvent", type="keyUp", **code)

    def type(self, text: str) -> None:
        """Type a text into the focused element."""
        self.ask("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click at the middle of an element."""
        self.get(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        box = self.get(f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()")
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2, "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, **at)


@contextlib.contextmanager
def tab(folder: Path) -> Iterator[Tab]:
    """Yield a tab of a browser that keeps its files in a folder, and end the browser."""
    assert PROGRAM
    errors = (folder / "errors").open("w+")
    argv = [PROGRAM, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
    with errors, subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=errors) as process:
        try:
            port = _port(folder / "errors", process)
            found = httpx.get(f"http://127.0.0.1:{port}/json/list", trust_env=False).json()
            address = next(entry["webSocketDebuggerUrl"] for entry in found if entry["type"] == "page")
            with connect(address, proxy=None, max_size=None) as socket:
                yield Tab(socket)
        finally:
            process.terminate()


def _port(errors: Path, process: "subprocess.Popen[bytes]") -> int:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and process.poll() is None:
        found = re.search(r"DevTools listening on ws://[^:]+:(\d+)/", errors.read_text())
        if found:
            return int(found[1])
        time.sleep(0.02)
    raise AssertionError(f"{PROGRAM} did not start: {errors.read_text()[-500:]}")
