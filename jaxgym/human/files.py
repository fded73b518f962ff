"""Writing of images and videos."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

IMAGES, VIDEOS = (".png",), (".gif", ".mp4")
_SECOND_MS = 1000


def write_image(path: Path, image: np.ndarray) -> None:
    """Write an image, uint8 (H, W, 3), as PNG."""
    import imageio.v3 as iio

    iio.imwrite(path, image)


def write_video(path: Path, images: Sequence[np.ndarray], fps: int) -> None:
    """Write frames, uint8 (H, W, 3), as GIF or MP4 with `fps` frames per second.

    Raises:
        ImportError: If the encoder of MP4 is not installed.
    """
    import imageio
    import imageio.v3 as iio

    if path.suffix == ".gif":
        iio.imwrite(path, np.stack(images), duration=_SECOND_MS / fps, loop=0)
        return
    with warnings.catch_warnings():
        # JAX warns of a fork; this one executes ffmpeg at once, so it can't deadlock.
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        with imageio.get_writer(path, format="FFMPEG", fps=fps) as writer:
            for image in images:
                writer.append_data(image)  # pyright: ignore[reportAttributeAccessIssue] — writers have it.
