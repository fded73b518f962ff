"""Encoding of frames as PNG, and the forms in which protocols attach them."""

import base64
import concurrent.futures
import functools
import importlib
import io
import os
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxgym import extras
from jaxgym.errors import OptionError

DEFAULT_SIDE_PX = 252
"""Side of an image that the default scale approximates: a multiple of the 28 px that vision models use per token."""

MOST_SCALE = 16
"""Largest scale."""

_LEVEL = 3
"""Compression level of zlib: images are a fifth smaller than with level 1, in the same time."""

_MOST_COLORS = 256
_RGB, _INDEXED, _BITS = 2, 3, 8
_UP = 2

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class Frame(NamedTuple):
    """Frame that is not encoded yet.

    Attributes:
        pixels: uint8 (H, W, 3), row first.
        scale: Width and height of a pixel in the image.
    """

    pixels: np.ndarray
    scale: int


def default_scale(shape: Sequence[int]) -> int:
    """Return the scale that makes the longer side of a frame of a shape about `DEFAULT_SIDE_PX` long, at least 1."""
    return max(1, round(DEFAULT_SIDE_PX / max(shape[:2])))


def png(pixels: np.ndarray, scale: int = 1) -> bytes:
    """Encode a frame, uint8 (H, W, 3), as PNG, enlarged by an integer (nearest neighbor).

    Equal arguments give equal bytes for one version of zlib. The image has a palette if the frame has at most 256
    colors. Rows that repeat the row above are stored as differences of zero.
    """
    height, width, _ = pixels.shape
    palette, indices = _indexed(pixels)
    if palette is None:
        kind, parts = _RGB, np.repeat(pixels, scale, axis=1).reshape(height, -1)
    else:
        kind, parts = _INDEXED, np.repeat(indices, scale, axis=1)
    rows = np.zeros((height, scale, 1 + parts.shape[1]), np.uint8)
    rows[:, 0, 1:] = parts
    rows[:, 1:, 0] = _UP
    header = struct.pack(">IIBBBBB", width * scale, height * scale, _BITS, kind, 0, 0, 0)
    chunks = [_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(rows.data, _LEVEL)), _chunk(b"IEND", b"")]
    if palette is not None:
        chunks.insert(1, _chunk(b"PLTE", palette))
    return b"".join([_SIGNATURE, *chunks])


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _indexed(pixels: np.ndarray) -> tuple[bytes | None, np.ndarray]:
    """Return the palette, 3 bytes a color, and the color of each pixel; None as the palette for too many colors."""
    height, width, channels = pixels.shape
    # Each color is read as four bytes, of which the last one belongs to the next color.
    values = np.ndarray((height * width,), "<u4", pixels.tobytes() + b"\0", strides=(channels,)) & np.uint32(0xFFFFFF)
    ordered = np.sort(values)
    colors = ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]
    if len(colors) > _MOST_COLORS:
        return None, values
    palette = colors.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :channels].tobytes()
    return palette, np.searchsorted(colors, values).astype(np.uint8).reshape(height, width)


# Encoding in threads: zlib releases Python's lock.


def encode_all(frames: Sequence[Frame]) -> list[bytes]:
    """Encode several frames as PNG in a thread pool."""
    if len(frames) == 1:
        return [png(*frames[0])]
    count = min(_num_workers(), len(frames))
    images: list[bytes] = [b""] * len(frames)
    parts = [frames[first::count] for first in range(count)]
    for first, made in enumerate(_threads_of(os.getpid()).map(_encode_part, parts)):
        images[first::count] = made
    return images


def _encode_part(frames: Sequence[Frame]) -> list[bytes]:
    return [png(*frame) for frame in frames]


@functools.cache
def _threads_of(process: int) -> concurrent.futures.ThreadPoolExecutor:
    del process  # part of the cache key: a forked child needs its own threads
    return concurrent.futures.ThreadPoolExecutor(_num_workers(), thread_name_prefix="png")


def _num_workers() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Forms of an image.


def as_base64(image: bytes) -> str:
    """Return an image as base64."""
    return base64.b64encode(image).decode("ascii")


def data_url(image: bytes) -> str:
    """Return a PNG as a data URL."""
    return f"data:image/png;base64,{as_base64(image)}"


def pil_image(image: bytes) -> Any:
    """Return a PNG as an RGB image of Pillow; raise `OptionError` if Pillow is not installed."""
    try:
        opened = importlib.import_module("PIL.Image").open(io.BytesIO(image))
    except ImportError as error:
        raise OptionError(extras.missing("serve", "pillow")) from error
    return opened.convert("RGB")
