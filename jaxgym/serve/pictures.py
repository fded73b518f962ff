"""Frames as files."""

import io

import numpy as np

from jaxgym import extras
from jaxgym.errors import OptionError


def png(frame: np.ndarray) -> bytes:
    """Return a frame, uint8 (H, W, 3), as a PNG.

    Raises:
        OptionError: Without Pillow.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise OptionError(extras.missing("serve", "pillow")) from error
    file = io.BytesIO()
    Image.fromarray(frame).save(file, format="PNG")
    return file.getvalue()
