"""Tasks of an OpenEnv server, which are level seeds, and validation of the arguments of a reset."""

from typing import Any

from jaxgym.levels import SPLIT_SIZE
from jaxgym.serve.openenv.frames import Errors, FrameError, fault, object_of

SPLITS = {"train": 0, "test": SPLIT_SIZE}
"""First seeds of the splits: training levels and held-out levels."""

HIGHEST_SEED = 2 * SPLIT_SIZE - 1
_LONGEST_ID = 255


def start_of(given: Any, place: tuple[str | int, ...] = ()) -> tuple[int | None, str | None]:
    """Return the seed and the episode id in the arguments of a reset, or None; ignore other entries.

    Args:
        given: An object with `seed`, `split`, `index` and `episode_id`, all optional. A seed with a split or an index
            must belong to them, as in a task; another seed is probably an index.
        place: Path of the object in the request.

    Raises:
        FrameError: If an entry is invalid.
    """
    given = object_of(given, place)
    seed, split, index, episode_id = (given.get(name) for name in ("seed", "split", "index", "episode_id"))
    errors = Errors()
    if split is not None:
        first = seed_of(split, 0 if index is None and seed is not None else index, place)
        end = first + (SPLIT_SIZE if index is None else 1)
        seed = first if seed is None else seed
        if type(seed) is int and not first <= seed < end:
            these = "this split" if index is None else "this split and index"
            wanted = first if index is not None else f"from {first} to {end - 1}"
            text = f"Input should be {wanted} to match {these}: pass only the seed, or only {these}"
            errors.append(fault("value_error", (*place, "seed"), text, seed))
    if seed is not None and (type(seed) is not int or not 0 <= seed <= HIGHEST_SEED):
        text = f"Input should be an integer from 0 to {HIGHEST_SEED}"
        errors.append(fault("int_type", (*place, "seed"), text, seed))
    if episode_id is not None and (not isinstance(episode_id, str) or len(episode_id) > _LONGEST_ID):
        text = f"Input should be a string of at most {_LONGEST_ID} characters"
        errors.append(fault("string_type", (*place, "episode_id"), text, episode_id))
    if errors:
        raise FrameError(errors)
    return seed, episode_id


def seed_of(split: Any, index: Any, place: tuple[str | int, ...] = ()) -> int:
    """Return the seed of a task; raise `FrameError` if there is no such split or index."""
    if not isinstance(split, str) or split not in SPLITS:
        raise FrameError([fault("enum", (*place, "split"), f"Input should be one of {', '.join(SPLITS)}", split)])
    if type(index) is not int or not 0 <= index < SPLIT_SIZE:
        text = f"Input should be an integer from 0 to {SPLIT_SIZE - 1}"
        raise FrameError([fault("int_type", (*place, "index"), text, index)])
    return SPLITS[split] + index
