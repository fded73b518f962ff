"""Record memory-gym 1.0.2's views of hidden information, for tests/parity/test_views.py.

    .parity/bin/python -m tests.parity.record_views tests/data/views.npz

One episode per id, played with the original's hidden information; every fourth view is kept, at the size of a frame.
"""

import json
import sys
from typing import Any

import gymnasium
import numpy as np

from tests.parity.against_original import IDS, OPTIONS, guided

SEED, STEPS, EVERY, SCALE = 1, 40, 4, 4


def record(env_id: str) -> dict[str, np.ndarray]:
    """Return the options, actions and views of an episode, or of a part of it that is long enough.

    The part after the first coin of an endless episode does not belong to its level.
    """
    original = gymnasium.make(env_id, disable_env_checker=True, render_mode="debug_rgb_array").unwrapped
    original.reset(seed=SEED, options=OPTIONS[env_id])
    images, actions, ended = [original.render()], [], False
    while not ended and len(actions) < STEPS:
        actions.append(guided(original))
        ended = original.step(actions[-1])[2] or getattr(original, "coins_collected", 0) > 0
        images.append(original.render())
    kept: Any = np.stack(images)[::EVERY, ::SCALE, ::SCALE]
    meta = json.dumps({"seed": SEED, "options": OPTIONS[env_id], "every": EVERY})
    return {"meta": np.asarray(meta), "actions": np.asarray(actions, np.int8), "pictures": kept}


if __name__ == "__main__":
    arrays = {f"{env_id}/{name}": array for env_id in IDS for name, array in record(env_id).items()}
    np.savez_compressed(sys.argv[1], **arrays)
