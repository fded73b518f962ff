"""Weights of the zoo: read from a folder, downloaded with a pinned SHA-256, resumed after a cut."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from baselines import zoo
from baselines.errors import RunError
from baselines.zoo import files

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FILE = f"Agent-{SHA256[:8]}.npz"


class Server(ThreadingHTTPServer):
    """Serve CONTENT with ranges; keep the request headers, and follow `faults` first, one per request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges: list[str | None] = []
        self.faults: list[str] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        fault = self.server.faults.pop(0) if self.server.faults else ""
        asked = self.headers["Range"]
        self.server.ranges.append(asked)
        if self.path != f"/{FILE}":
            self.send_error(404)
            return
        begin = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and fault != "no ranges" else 0
        if begin >= len(CONTENT):
            self.send_error(416)
            return
        content = CONTENT[begin:]
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if fault == "cut":
            content = content[: len(content) // 2]
        self.wfile.write(bytes(len(content)) if fault == "corrupt" else content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr(files, "BASE_URL", f"http://127.0.0.1:{server.server_port}/")
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAXGYM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "home" / "weights"


def read(tmp_path: Path, **given: Path) -> bytes:
    return files.read_file("Agent", SHA256, tmp_path / "no checkout", **given)


def test_a_file_is_downloaded_once(server: Server, tmp_path: Path, cache: Path) -> None:
    assert read(tmp_path) == read(tmp_path) == CONTENT
    assert server.ranges == [None]
    assert sorted(path.name for path in cache.iterdir()) == [".lock", FILE]


def test_a_download_resumes_after_a_cut(server: Server, tmp_path: Path) -> None:
    server.faults = ["cut", "cut"]
    with pytest.raises(RunError, match=r"the connection ended after 128000 of 256000 bytes\)\. Try again"):
        read(tmp_path)
    with pytest.raises(RunError, match=r"the connection ended after 192000 of 256000 bytes"):
        read(tmp_path)
    assert read(tmp_path) == CONTENT
    assert server.ranges == [None, "bytes=128000-", "bytes=192000-"]


@pytest.mark.parametrize("kept", [CONTENT[:10], CONTENT], ids=["a part", "all of it"])
def test_a_server_without_ranges_sends_the_whole_file(server: Server, tmp_path: Path, cache: Path, kept: bytes) -> None:
    cache.mkdir(parents=True)
    (cache / FILE).with_suffix(".part").write_bytes(kept)
    server.faults = ["no ranges"]
    assert read(tmp_path) == CONTENT


@pytest.mark.parametrize("kept", [CONTENT, b"x" * 300_000, b"x" * 10], ids=["complete", "too long", "corrupt"])
def test_a_partial_file_is_checked_as_a_whole(server: Server, tmp_path: Path, cache: Path, kept: bytes) -> None:
    cache.mkdir(parents=True)
    (cache / FILE).with_suffix(".part").write_bytes(kept)
    assert read(tmp_path) == CONTENT
    assert server.ranges[1:] == ([] if kept == CONTENT else [None])


def test_a_corrupt_file_is_downloaded_once_more(server: Server, tmp_path: Path) -> None:
    server.faults = ["corrupt"]
    assert read(tmp_path) == CONTENT
    assert server.ranges == [None, None]


def test_a_file_that_stays_corrupt_is_an_error(server: Server, tmp_path: Path, cache: Path) -> None:
    server.faults = ["corrupt"] * 3
    with pytest.raises(RunError, match=rf"^expected a file with SHA-256 {SHA256} at http.*, got another one twice"):
        read(tmp_path)
    assert len(server.ranges) == 2
    assert [path.name for path in cache.iterdir()] == [".lock"]


@pytest.mark.usefixtures("server")
def test_a_corrupt_file_of_the_cache_is_replaced(tmp_path: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / FILE).write_bytes(b"damaged")
    assert read(tmp_path) == (cache / FILE).read_bytes() == CONTENT


@pytest.mark.usefixtures("server")
def test_a_missing_file_of_the_server_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BASE_URL", f"{files.BASE_URL}nowhere/")
    with pytest.raises(RunError, match=rf"cannot download http.*nowhere/{FILE} \(HTTP Error 404: Not Found\)"):
        read(tmp_path)


def test_threads_that_need_one_file_download_it_once(server: Server, tmp_path: Path) -> None:
    contents: list[bytes] = []
    threads = [threading.Thread(target=lambda: contents.append(read(tmp_path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents == [CONTENT] * 4
    assert server.ranges == [None]


def test_without_an_address_the_error_names_the_folders(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(RunError, match=rf"^expected {FILE} in .*no checkout or {cache}, got none\. Copy it there"):
        read(tmp_path)


def test_a_given_folder_is_the_only_one(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    with pytest.raises(RunError, match=rf"^expected {FILE} in {folder}, got none"):
        read(tmp_path, folder=folder)
    (folder / FILE).write_bytes(b"damaged")
    with pytest.raises(RunError, match=rf"^expected {FILE} in {folder}, got a corrupt file"):
        read(tmp_path, folder=folder)
    (folder / FILE).write_bytes(CONTENT)
    assert read(tmp_path, folder=folder) == CONTENT
    assert server.ranges == []


def test_the_checkout_is_read_without_a_server(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(CONTENT)
    assert files.read_file("Agent", SHA256, tmp_path) == CONTENT


def test_the_cache_is_in_the_folder_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAXGYM_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert files.cache_folder() == Path("/somewhere/jaxgym/weights")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert files.cache_folder() == Path.home() / ".cache/jaxgym/weights"


def test_packing_keeps_vectors_and_rounds_matrices_by_output_channel() -> None:
    generator = np.random.default_rng(0)
    scales = np.array([1e-4, 1.0, 1e4], np.float32)
    params = {
        "bias": generator.normal(size=5).astype(np.float32),
        "kernel": generator.normal(size=(4, 8, 3)).astype(np.float32) * scales,
        "kernel.scale": np.ones((2, 2), np.float32),
        "zero": np.zeros((2, 2), np.float32),
    }
    unpacked = files.unpack(files.pack(params))
    assert {name: leaf.dtype for name, leaf in unpacked.items()} == dict.fromkeys(params, np.dtype(np.float32))
    np.testing.assert_array_equal(unpacked["bias"], params["bias"])
    np.testing.assert_array_equal(unpacked["zero"], params["zero"])
    np.testing.assert_allclose(unpacked["kernel.scale"], params["kernel.scale"])
    largest = np.abs(params["kernel"]).max(axis=(0, 1))
    assert (np.abs(unpacked["kernel"] - params["kernel"]).max(axis=(0, 1)) <= 1.001 * largest / 126).all()


@pytest.mark.parametrize("env_id", zoo.agents())
def test_a_weights_file_of_the_checkout_is_the_pinned_one_of_at_most_4_megabytes(env_id: str) -> None:
    sha256 = json.loads((zoo.FOLDER / "sha256.json").read_text())[env_id]
    assert len(files.read_file(env_id, sha256, zoo.FOLDER / "weights")) <= 4_000_000
    assert len(list((zoo.FOLDER / "weights").glob(f"{env_id}-????????.npz"))) == 1
