"""Writing pictures and videos."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxgym.errors import OptionError

PICTURES, VIDEOS = (".png",), (".gif", ".mp4")
_SECOND_MS = 1000


def check_suffix(path: Path, suffixes: Sequence[str]) -> None:
    """Check how the name of a file ends.

    Raises:
        OptionError: If it ends otherwise.
    """
    if path.suffix not in suffixes:
        raise OptionError(f"--out was given {path}; give a name that ends in {' or '.join(suffixes)}.")


def write_picture(path: Path, picture: np.ndarray) -> None:
    """Write a picture, uint8 (H, W, 3), as PNG."""
    import imageio.v3 as iio

    iio.imwrite(path, picture)


def write_video(path: Path, pictures: Sequence[np.ndarray], fps: int) -> None:
    """Write pictures, uint8 (H, W, 3), as GIF or MP4, so many a second.

    Raises:
        ImportError: If it is an MP4 and what encodes these is not installed.
    """
    import imageio
    import imageio.v3 as iio

    if path.suffix == ".gif":
        iio.imwrite(path, np.stack(pictures), duration=_SECOND_MS / fps, loop=0)
        return
    with warnings.catch_warnings():
        # JAX warns of a fork, which becomes ffmpeg at once and takes up no lock.
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        with imageio.get_writer(path, format="FFMPEG", fps=fps) as writer:
            for picture in pictures:
                writer.append_data(picture)  # pyright: ignore[reportAttributeAccessIssue] — writers have it.
