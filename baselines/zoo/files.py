"""Weights files of the zoo: where they are, how they are downloaded, and their format.

A file is named NAME-HASH.npz after its agent and the first digits of its SHA-256, so each version has its own name. It
has the same name in a checkout, in a folder of the user, in the cache and at `BASE_URL`.

A matrix is stored as integers from -63 to 63 with one scale per output channel: half precision would take 6.4 to 7.6 MB
per agent, and this takes 3.2 to 3.9 MB. Other parameters keep their dtype.
"""

import contextlib
import fcntl
import hashlib
import io
import os
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
from tqdm import tqdm

from baselines.errors import RunError

BASE_URL = ""
"""Address of the folder with the weights files of a release, ending in a slash; empty until there is a release."""

HASH_DIGITS = 8
_SCALE = "/scale"  # parameter names have no slash
_LIMIT = 63  # 127 would give files of up to 4.4 MB
_DOWNLOADS = 2  # a corrupt file is downloaded once more
_TIMEOUT_S = 30
_CHUNK = 1 << 16
_PARTIAL, _RANGE_NOT_SATISFIABLE = 206, 416


def file_name(name: str, sha256: str) -> str:
    """Return the name of the weights file of an agent."""
    return f"{name}-{sha256[:HASH_DIGITS]}.npz"


def cache_folder() -> Path:
    """Return the folder of downloaded weights: `weights` in JAXGYM_HOME, by default in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("JAXGYM_HOME") or cache / "jaxgym").expanduser() / "weights"


def read_file(name: str, sha256: str, checkout: Path, folder: Path | None = None) -> bytes:
    """Return the content of a weights file.

    Args:
        name: name of the agent.
        sha256: expected SHA-256 of the file, in hexadecimal digits.
        checkout: folder of the weights in a checkout; it need not exist.
        folder: the only folder to read, if given. By default, the file is read from the checkout, else from the cache,
            else downloaded to the cache.

    Raises:
        RunError: if there is no such file, it has another SHA-256, or the download fails. The next call resumes an
            interrupted download.
    """
    file = file_name(name, sha256)
    folders = [folder] if folder else [checkout, cache_folder()]
    found = [place / file for place in folders if (place / file).exists()]
    try:
        for path in found:
            content = path.read_bytes()
            if _has_hash(content, sha256):
                return content
        if BASE_URL and not folder:
            return _download(BASE_URL + file, cache_folder() / file, sha256)
    except OSError as error:
        raise RunError(f"cannot read or write the weights in {error.filename} ({error.strerror}).") from error
    raise RunError(
        f"expected {file} in {' or '.join(map(str, folders))}, got {'a corrupt file' if found else 'none'}. "
        "Copy it there from baselines/zoo/weights of a checkout, or give that folder: baselines.load(ID, folder=...)."
    )


def _has_hash(content: bytes, sha256: str) -> bool:
    return hashlib.sha256(content).hexdigest() == sha256


def _download(url: str, path: Path, sha256: str) -> bytes:
    """Download a file, check its SHA-256, and return its content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with (path.parent / ".lock").open("w") as lock:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists() and _has_hash(path.read_bytes(), sha256):  # another process has downloaded it
            return path.read_bytes()
        for _ in range(_DOWNLOADS):
            _fetch(url, part)
            content = part.read_bytes()
            if _has_hash(content, sha256):
                part.replace(path)
                return content
            part.unlink()
    raise RunError(
        f"expected a file with SHA-256 {sha256} at {url}, got another one twice. Copy the file from a checkout to "
        f"{path.parent}."
    )


def _fetch(url: str, part: Path) -> None:
    """Download a file to `part`, after the bytes that are there already."""
    begun = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={begun}-"} if begun else {})
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as response:
            begun = begun if response.status == _PARTIAL else 0
            length = response.headers["Content-Length"]
            total = begun + int(length) if length else None
            with (
                part.open("ab" if begun else "wb") as file,
                tqdm(total=total, initial=begun, unit="B", unit_scale=True, desc=part.stem, disable=None) as bar,
            ):
                while chunk := response.read(_CHUNK):
                    file.write(chunk)
                    bar.update(len(chunk))
        if total is not None and part.stat().st_size < total:
            raise ConnectionError(f"the connection ended after {part.stat().st_size} of {total} bytes")
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError) and error.code == _RANGE_NOT_SATISFIABLE:
            return  # `part` is complete already, or longer than the file
        raise RunError(f"cannot download {url} ({error}). Try again; the download resumes.") from error


def pack(params: dict[str, np.ndarray]) -> bytes:
    """Return the content of a weights file."""
    packed: dict[str, np.ndarray] = {}
    for name, leaf in params.items():
        if leaf.ndim > 1 and np.issubdtype(leaf.dtype, np.floating):
            largest = np.abs(leaf).max(axis=tuple(range(leaf.ndim - 1))).astype(np.float32)
            packed[name + _SCALE] = scale = np.where(largest > 0, largest / _LIMIT, 1).astype(np.float32)
            packed[name] = np.round(leaf / scale).astype(np.int8)
        else:
            packed[name] = leaf
    file = io.BytesIO()
    np.savez_compressed(file, **packed)  # pyright: ignore[reportArgumentType]
    return file.getvalue()


def unpack(content: bytes) -> dict[str, np.ndarray]:
    """Return the parameters of a weights file, matrices as float32."""
    with np.load(io.BytesIO(content)) as packed:
        return {
            name: packed[name] * packed[name + _SCALE] if name + _SCALE in packed else packed[name]
            for name in packed.files
            if not name.endswith(_SCALE)
        }
