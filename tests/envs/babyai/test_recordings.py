"""Recorded BabyAI episodes and statistics of the original's levels, compared with ours."""

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxgym.envs.babyai import original, table
from jaxgym.envs.babyai.mission import num_units, text_of
from jaxgym.envs.common.draws import Draws, Stream
from jaxgym.envs.minigrid.world import Color, Door, Type, color_of, state_of, type_of
from tests.parity import babyai

FOLDER = Path(__file__).parents[2] / "data" / "babyai"
NAMES = sorted(path.stem for path in FOLDER.glob("*__*.npz"))
# These start with an object in the hand or have strict clauses, which are programs of their own.
COSTLY = ("PutNextS", "OpenDoorsOrder", "OpenRedBlue", "OpenDoorDebug", "PickupDistDebug")
QUICK = ("GoToLocalS5N2-v0", "PutNextLocalS5N3-v0", "OpenRedDoor-v0", "KeyCorridorS3R1-v0")
NUM_SEEDS = 500


@pytest.mark.parametrize("name", NAMES)
def test_the_level_of_a_recorded_seed_is_the_recorded_one(name: str) -> None:
    babyai.check_level(*babyai.load(FOLDER / f"{name}.npz"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name.startswith(COSTLY) else []) for name in NAMES]
)
def test_a_recorded_episode_is_played_alike(name: str) -> None:
    babyai.check_episode(*babyai.load(FOLDER / f"{name}.npz"))


def test_recordings_cover_every_verb_and_connection() -> None:
    missions = " ".join(babyai.load(FOLDER / f"{name}.npz")[1]["mission"] for name in NAMES)
    assert all(
        phrase in missions for phrase in ("go to", "open", "pick up", "next to", " and ", ", then", " after you ")
    )


@functools.cache
def layouts() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with np.load(FOLDER / "layouts.npz") as archive:
        arrays = {key: archive[key] for key in archive.files}
    return json.loads(str(arrays.pop("table"))), arrays


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in table.LEVELS]
)
def test_levels_of_500_seeds_have_the_recorded_statistics(name: str) -> None:
    level_class, (facts, arrays) = table.LEVELS[name], layouts()
    rooms = level_class.rooms
    cells, places = np.zeros((11, len(Color), len(Door)), int), np.zeros((rooms.width, rooms.height, 5), int)
    directions, tries = np.zeros(4, int), np.zeros(1100, int)
    words, limits = dict[str, int](), dict[str, int]()
    for seed in range(NUM_SEEDS):
        level, reasons = original.draw_level(level_class, Stream(Draws.of([seed], 256), 0))
        # The recorded statistics are those after the agent took an object.
        floor = babyai.floor_of(level.cells, level.mission.matches) if level_class.starts_carrying else level.cells
        kind = type_of(floor)
        np.add.at(cells, (kind, color_of(floor), state_of(floor)), 1)
        for channel, each in enumerate((Type.DOOR, Type.KEY, Type.BALL, Type.BOX)):
            places[..., channel] += kind == each
        places[*level.position, 4] += 1
        directions[level.direction] += 1
        tries[len(reasons) + 1] += 1
        limit = level_class.steps * (int(num_units(level.mission.verbs)) if level_class.is_per_unit else 1)
        limits[str(limit)] = limits.get(str(limit), 0) + 1
        for word in text_of(level.mission.tokens).replace(",", "").split():
            words[word] = words.get(word, 0) + 1
    env_id = f"BabyAI-{name}"
    np.testing.assert_array_equal(places, arrays[f"{env_id}/pos"])
    np.testing.assert_array_equal(cells, arrays[f"{env_id}/cells"])
    np.testing.assert_array_equal(directions, arrays[f"{env_id}/dirs"])
    expected = arrays[f"{env_id}/tries"]
    np.testing.assert_array_equal(tries, np.pad(expected, (0, len(tries) - len(expected))))
    assert words == facts[env_id]["words"]
    assert limits == facts[env_id]["max_steps"]
