"""Levels of the original's seeds: every recorded layout and episode has the level that we make from its seed."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chex
import jax
import numpy as np
import pytest

import jaxgym
from jaxgym import levels
from jaxgym.envs.common import episode_sequence
from jaxgym.envs.common.draws import Draws
from jaxgym.envs.mystery_path import endless_segments as segments
from jaxgym.envs.mystery_path import game as mystery_path
from jaxgym.envs.searing_spotlights import original as searing_spotlights
from jaxgym.errors import LevelError, OptionError, UnknownIdError
from tests.ids import families, is_babyai, without_new_ids
from tests.parity import memory_gym
from tests.parity.recordings import Recording
from tests.parity.searing_spotlights import lifetime_steps

TRACES = Path(__file__).parents[1] / "data" / "traces"
IDS = {
    "mm": "MortarMayhem-v0",
    "mmg": "MortarMayhem-Grid-v0",
    "mmb": "MortarMayhemB-v0",
    "mmbg": "MortarMayhemB-Grid-v0",
    "emm": "Endless-MortarMayhem-v0",
    "emp": "Endless-MysteryPath-v0",
    "mp": "MysteryPath-v0",
    "mpg": "MysteryPath-Grid-v0",
    "ss": "SearingSpotlights-v0",
    "ess": "Endless-SearingSpotlights-v0",
}
CLASSICS = [env_id for env_id in families() if (made := jaxgym.spec_of(env_id).original) and not made.package]
GAME = IDS["mmg"]
COUNTED = "Counted-v0"  # GAME under another id, whose levels are counted as they are made


def row(buffer: Any, index: int) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf[index]), buffer)


# The random numbers.


def test_the_numbers_drawn_are_those_of_numpys_generator() -> None:
    seeds = [*range(40), 2**31, 2**32 - 1]
    draws, generators = Draws.of(seeds, num_words=3), [np.random.default_rng(seed) for seed in seeds]
    choose = np.random.default_rng(5)
    for _ in range(120):
        where = choose.random(len(seeds)) < 0.8
        # One choice, powers of two, sizes that divide no power of two, and one that rejects many words.
        size = int(choose.choice([1, 2, 3, 8, 9, 100, 7056, 3 * 10**9]))
        sizes = choose.integers(1, 12, len(seeds))
        kinds: list[tuple[np.ndarray, Callable[[np.random.Generator, int], float]]] = [
            (draws.integers(-3, size - 3, where), lambda one, _, size=size: one.integers(-3, size - 3)),
            (draws.uniform(0.0025, 0.0075, where), lambda one, _: one.uniform(0.0025, 0.0075)),
            (draws.integers(0, sizes, where), lambda one, index, sizes=sizes: one.integers(0, sizes[index])),
            (draws.choice([4, 7, 1], where), lambda one, _: one.choice([4, 7, 1])),
        ]
        for drawn, draw in kinds:
            indices = np.flatnonzero(where)
            assert drawn[indices].tolist() == [draw(generators[index], index) for index in indices]


def test_streams_go_back_to_a_place() -> None:
    draws = Draws.of([1, 2, 3])
    draws.integers(0, 9, np.asarray([True, False, True]))
    places, first = draws.places, [draws.integers(0, 9), draws.uniform(0, 1)]
    draws.go_to(places)
    again = [draws.integers(0, 9), draws.uniform(0, 1)]
    assert np.array_equal(first, again)


@pytest.mark.parametrize("speed", [0.0025, 0.0075, 0.005, 0.004, 1 / 3, 0.1, 0.3, 1.0, 2.0, 0.00731, 0.001])
def test_the_lifetime_of_a_spotlight_is_counted_in_float64(speed: float) -> None:
    speeds = np.asarray([speed, np.nextafter(speed, 0.0), np.nextafter(speed, 9.0)])
    assert searing_spotlights.lifetime_steps(speeds).tolist() == [lifetime_steps(one) for one in speeds]


# Recordings.


def differing(recorded: dict[str, Any], level: Any) -> Iterator[str]:
    """Yield the name of each recorded part of a layout that differs from the level."""
    for name, ours, theirs in parts(recorded, level):
        if not np.array_equal(ours, theirs):
            yield f"{name} is {np.asarray(ours).tolist()}, recorded {np.asarray(theirs).tolist()}"


def parts(recorded: dict[str, Any], level: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, level's part and recorded part of a layout; recorded parts are padded with -1."""
    if "commands" in recorded:
        commands = recorded["commands"]
        yield "start_tile", level.start_tile, recorded["start_tile"]
        yield "commands", level.commands[: len(commands)], commands
        # A tile is 14 px wide and every arena centered.
        corner = 42 - 7 * recorded.get("arena_size", 6)
        yield "start_pos", corner + 14 * level.start_tile + 7 + level.start_offset_px, recorded["start_pos"]
        for name in ("command_count", *memory_gym.endless_mortar_mayhem.DURATIONS):
            if name in recorded:
                yield name, getattr(level, name), recorded[name]
    if "goal" in recorded:
        path = recorded["path"].astype(int)
        yield "start", level.start_tile, recorded["start"]
        yield "goal", level.goal_tile, recorded["goal"]
        yield "path", level.path, mystery_path.tile_set(np.where(path[:, 0] < 0, -1, path @ [7, 1]).astype(np.int32))
    if "path" in recorded and "goal" not in recorded:
        path = recorded["path"].astype(int)
        yield "start", [0, level.start_row], recorded["start"]
        for number in range(path[:, 0].max() + 1):
            tiles = path[path[:, 0] == number, 1:] - [8 * number, 0]
            yield f"segment {number}", level.segments[number], segments.pack(tiles)
    if "spot_radius" in recorded:
        count = len(recorded["spot_radius"])
        yield "start_pos", level.start_px, recorded["start_pos"]
        yield "coins", level.coins_px[: len(recorded["coins"])], recorded["coins"]
        yield "number of spotlights", min(level.num_tracks, count), count
        yield "spot_radius", level.tracks.radius_px[:count], recorded["spot_radius"]
        yield "spot_angles", level.tracks.angles_deg[:count], recorded["spot_angles"]
        speed = level.tracks.speed
        # Pairs of float32 hold 46 bits or more.
        yield (
            "spot_speed",
            np.abs(speed.high[:count] + speed.low[:count].astype(float) - recorded["spot_speed"]) < (1e-16),
            np.ones(count),
        )
        alive = [lifetime_steps(one) for one in recorded["spot_speed"]]
        yield "lifetime", level.tracks.lifetime_steps[:count], alive
        if "exit_pos" in recorded:
            yield "exit_pos", level.exit_px, recorded["exit_pos"]
        if "start_rot" in recorded:
            yield "start_rot", 45 * level.heading, recorded["start_rot"]


@pytest.mark.parametrize("family", IDS)
def test_every_recorded_layout_is_the_level_of_its_seed(family: str) -> None:
    with np.load(TRACES / f"layouts__{family}.npz") as archive:
        arrays = {name: archive[name] for name in archive.files if name != "draws"}
    # No more segments than were recorded.
    few = {"max_given_segments": 3} if family == "emp" else {}
    buffer = jax.device_get(levels.original(IDS[family], arrays["seed"], **few))
    assert levels.num_levels(buffer) == len(arrays["seed"]) >= 300
    size = {"arena_size": 5} if family in ("mm", "mmg", "mmb", "mmbg") else {}
    for index in range(len(arrays["seed"])):
        recorded = {name: array[index] for name, array in arrays.items()} | size
        assert not list(differing(recorded, row(buffer, index)))


def layout_of(recording: Recording) -> dict[str, Any]:
    """Return the part of a recorded episode that its level determines before the episode."""
    layout = {**recording.meta["layout"], **recording.arrays}
    if recording.meta["env"] == "ess":
        taken = np.flatnonzero(np.diff(layout["coins_collected"]) > 0)
        first = taken[0] + 1 if len(taken) else len(layout["actions"])
        count = int(np.sum(layout["spot_spawn_step"] <= first))
        layout |= {name: layout[name][:count] for name in ("spot_radius", "spot_angles", "spot_speed")}
        layout["coins"] = layout["coins"][:1]
    return layout


@pytest.mark.parametrize("family", IDS)
def test_every_recorded_episode_has_the_level_of_its_seed(family: str) -> None:
    paths = memory_gym.recordings([TRACES], [family])
    assert len(paths) > 5
    for path in paths:
        recording = Recording.load(path)
        options = recording.meta["options"]
        if family == "emp":
            options |= {"max_given_segments": int(recording.arrays["path"][:, 0].max()) + 1}
        buffer = levels.original(recording.meta["env_id"], [recording.meta["seed"]], **options)
        assert not list(differing(layout_of(recording), row(buffer, 0))), path.name


def test_a_level_of_another_seed_differs() -> None:
    with np.load(TRACES / "layouts__ss.npz") as archive:
        recorded = {name: archive[name][0] for name in archive.files}
    other = levels.original(IDS["ss"], [recorded["seed"] + 1])
    names = [sentence.split(" is ")[0] for sentence in differing(recorded, row(other, 0))]
    assert {"start_pos", "coins", "spot_radius", "spot_angles", "spot_speed", "exit_pos"} <= set(names)


# Level buffers.


@pytest.mark.parametrize("env_id", [*IDS.values(), *CLASSICS])
def test_the_level_buffer_is_of_the_kind_that_make_takes(env_id: str) -> None:
    buffer = levels.original(env_id, [200_000, 200_001])
    env, params = jaxgym.make(env_id, levels=buffer)
    own = jax.eval_shape(env.sample_level, jax.random.key(0), params)
    assert jax.tree.map(lambda leaf: (leaf.shape[1:], leaf.dtype), buffer) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), own
    )
    _, state = jax.eval_shape(env.reset, jax.random.key(0), params)
    assert jax.tree.structure(state.level) == jax.tree.structure(buffer)


def test_a_level_buffer_of_the_usual_size_changes_no_environment() -> None:
    for env_id in ("SearingSpotlights-v0", "Endless-MortarMayhem-v0"):
        env, params = jaxgym.make(env_id)
        buffer = levels.make_level_buffer(env, params, [0])
        assert jaxgym.make(env_id, levels=buffer)[0] == env


def test_a_reset_starts_in_a_level_of_the_level_buffer() -> None:
    options = {"observation": "symbolic", "command_count": [2]}
    buffer = levels.original(GAME, [3, 4], **options)
    env, params = jaxgym.make(GAME, levels=buffer, **options)
    started = env.reset_to_level(jax.random.key(0), row(buffer, 1), params)[1].level
    chex.assert_trees_all_equal(started, row(buffer, 1))
    drawn = jax.device_get(env.reset(jax.random.key(0), params)[1].level)
    assert any(jax.tree.all(jax.tree.map(np.array_equal, drawn, row(buffer, index))) for index in range(2))


@pytest.mark.parametrize("env_id", [IDS["emm"], IDS["emp"], IDS["ss"], IDS["ess"]])
def test_a_single_level_is_no_level_buffer(env_id: str) -> None:
    with pytest.raises(LevelError, match=rf"^{env_id}: expected a level buffer with at least one level, got"):
        jaxgym.make(env_id, levels=row(levels.original(env_id, [0]), 0))


def test_seeds_made_together_and_alone_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for env_id in (IDS["mmb"], IDS["ess"]):
        buffer = levels.original(env_id, range(5))
        monkeypatch.setattr("jaxgym.envs.common.draws._BATCH", 2)
        again = levels.original(env_id, range(5))
        monkeypatch.undo()
        chex.assert_trees_all_equal(buffer, again)


def test_a_list_holds_as_much_as_the_options_ask_for() -> None:
    shapes = {
        "whole episode": levels.original(IDS["ss"], [0]).tracks.radius_px.shape,
        "no limit": levels.original(IDS["ss"], [0], max_steps=0).tracks.radius_px.shape,
        "asked for": levels.original(IDS["ss"], [0], max_given_spotlights=20).tracks.radius_px.shape,
        "until the first coin": levels.original(IDS["ess"], [0]).tracks.radius_px.shape,
        "commands": levels.original(IDS["emm"], [0]).commands.shape,
        "segments": levels.original(IDS["emp"], [0], max_segments=5).segments.shape,
        "few segments": levels.original(IDS["emp"], [0], max_given_segments=2).segments.shape,
        "few commands": levels.original(IDS["emm"], [0], max_given_commands=3).commands.shape,
    }
    assert shapes == {
        "whole episode": (1, 4 + 6),
        "no limit": (1, 4 + 30),
        "asked for": (1, 20),
        "until the first coin": (1, 3 + 3),
        "commands": (1, 64),
        "segments": (1, 5, 32),
        "few segments": (1, 2, 32),
        "few commands": (1, 3),
    }


# Errors.


def test_no_adapter_continues_the_episodes_of_a_classic() -> None:
    with pytest.raises(
        LevelError, match=r"^T-Maze-v0: expected an id of memory-gym or minigrid, whose episodes can be"
    ):
        episode_sequence.of("T-Maze-v0")


def test_an_id_without_originals_is_told_which_have_some() -> None:
    spec = jaxgym.spec_of(GAME)
    with without_new_ids():
        jaxgym.register("Mine-v0", dataclasses.replace(spec, original=None, text=None))
        with pytest.raises(LevelError, match=r"^Mine-v0 has no original levels\. Use ") as raised:
            levels.original("Mine-v0", [0])
        listed = str(raised.value).partition("original levels: ")[2].removesuffix(".").split(", ")
        assert listed == [
            *(name for name in families() if jaxgym.spec_of(name).original is not None and not is_babyai(name)),
            "BabyAI-* (96 ids)",
        ]
        assert GAME in listed
    with pytest.raises(UnknownIdError, match="Unknown environment id"):
        levels.original("Yours-v0", [0])


@pytest.mark.parametrize("seeds", [[-1], [1.5], [2**32], ["7"], [True, False]])
def test_a_seed_outside_of_the_range_is_rejected(seeds: list[Any]) -> None:
    with pytest.raises(LevelError, match=r"^level seed: expected integers from 0 to 4294967295, got .*\.$"):
        levels.original(GAME, seeds)


@pytest.mark.parametrize("seeds", [[], 3, [[1, 2]]])
def test_seeds_have_one_axis(seeds: Any) -> None:
    with pytest.raises(LevelError, match=r"^original: expected a list of at least one seed, got shape .*\.$"):
        levels.original(GAME, seeds)


def test_options_are_checked_as_make_does() -> None:
    with pytest.raises(
        OptionError, match=r"^MortarMayhem-Grid-v0: expected an option, got 'comand_count' \(did you mean"
    ):
        levels.original(GAME, [0], comand_count=[3])
    with pytest.raises(OptionError, match=r"^MortarMayhem-Grid-v0: arena_size: expected an integer from 2 to 6, got 9"):
        levels.original(GAME, [0], arena_size=9)


@pytest.mark.parametrize("name", ["radius", "speed"])
def test_ranges_of_which_the_original_fails_are_rejected(name: str) -> None:
    options = {f"spot_min_{name}": 9.0, f"spot_max_{name}": 7.5}
    with pytest.raises(OptionError, match=f"spot_max_{name}: expected at least spot_min_{name}="):
        levels.original(IDS["ss"], [0], **options)


def test_more_coins_than_the_original_finds_places_for_are_rejected() -> None:
    with pytest.raises(LevelError, match=r"^expected free pixels for all coins, got none for seed 5, .* num_coins"):
        levels.original(IDS["ss"], [5], num_coins=[32])


def test_a_segment_that_is_too_long_for_ours_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    segments.make_segment_buffer()  # it is cached, so it must not be made with the patched number
    monkeypatch.setattr(segments, "MAX_TILES", 7)
    with pytest.raises(LevelError, match=r"^expected segments of at most 7 tiles, got \d+ for seed 5\. Leave"):
        levels.original(IDS["emp"], [5], max_given_segments=1)


# Files.


@pytest.fixture
def made() -> Iterator[list[int]]:
    """Return a list that grows whenever levels are made and not read."""
    counts: list[int] = []
    spec = jaxgym.spec_of(GAME)
    assert spec.original is not None
    make = spec.original.levels

    def counted(env: Any, options: Any, seeds: Any) -> Any:
        counts.append(len(seeds))
        return make(env, options, seeds)

    counting = dataclasses.replace(spec, original=jaxgym.Original(counted, spec.original.sequence), text=None)
    with without_new_ids():
        jaxgym.register(COUNTED, counting)
        yield counts


def test_levels_are_made_once_and_read_after_that(tmp_path: Path, made: list[int]) -> None:
    folder = tmp_path / "new" / "folder"
    first, again = (levels.original(COUNTED, range(9), directory=folder) for _ in range(2))
    assert made == [9]
    chex.assert_trees_all_equal(first, again)
    assert [path.suffix for path in folder.iterdir()] == [".npz"]


def test_other_seeds_or_options_are_other_files(tmp_path: Path, made: list[int]) -> None:
    for seeds, options in ((range(2), {}), (range(1, 3), {}), (range(2), {"arena_size": 6}), (range(3), {})):
        levels.original(COUNTED, seeds, directory=tmp_path, **options)
    assert made == [2, 2, 2, 3]
    assert len(list(tmp_path.iterdir())) == 4


def test_a_damaged_file_is_made_again(tmp_path: Path, made: list[int]) -> None:
    buffer = levels.original(COUNTED, range(3), directory=tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    damaged = [b"", whole[: len(whole) // 2], b"no archive", *(flipped(whole, at) for at in range(0, len(whole), 199))]
    for content in damaged:
        path.write_bytes(content)
        again = levels.original(COUNTED, range(3), directory=tmp_path)
        chex.assert_trees_all_equal(buffer, again)
    # Some bytes of an archive mean nothing; all that is cut or no archive is noticed.
    assert len(made) >= 4
    assert len(list(tmp_path.iterdir())) == 1


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


def test_a_file_of_other_arrays_is_made_again(tmp_path: Path, made: list[int]) -> None:
    buffer = levels.original(COUNTED, range(3), directory=tmp_path)
    (path,) = tmp_path.iterdir()
    np.savez(path, leaf_0=np.zeros(3))
    again = levels.original(COUNTED, range(3), directory=tmp_path)
    assert (made, jax.tree.all(jax.tree.map(np.array_equal, buffer, again))) == ([3, 3], True)


def test_a_write_that_fails_leaves_no_file(tmp_path: Path, made: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space left"):
        levels.original(COUNTED, range(3), directory=tmp_path)
    assert (made, list(tmp_path.iterdir())) == ([3], [])
