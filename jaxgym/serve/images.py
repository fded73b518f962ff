"""Encoding of frames."""

import io

import numpy as np

from jaxgym import extras
from jaxgym.errors import OptionError


def png(frame: np.ndarray) -> bytes:
    """Encode a frame, uint8 (H, W, 3), as PNG; raise `OptionError` if Pillow is not installed."""
    try:
        from PIL import Image
    except ImportError as error:
        raise OptionError(extras.missing("serve", "pillow")) from error
    file = io.BytesIO()
    Image.fromarray(frame).save(file, format="PNG")
    return file.getvalue()
