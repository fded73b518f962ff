"""Replay recorded BabyAI episodes of the package minigrid: `python -m tests.parity.babyai FOLDER`.

Each recording is compared twice. The level that `jaxgym.levels.original` draws from the recorded seed must be the
recorded one. Then the recorded level is played with the recorded actions; all observations, results and frames must be
equal.

tests/data/minigrid/README.md describes the arrays of a recording.
"""

import functools
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from jaxgym import EnvParams
from jaxgym.envs.babyai import original, table
from jaxgym.envs.babyai.classes import LevelClass
from jaxgym.envs.babyai.game import BabyAI
from jaxgym.envs.babyai.level import Level
from jaxgym.envs.babyai.mission import (
    ANY_COLOR,
    NUM_THINGS,
    Clause,
    Description,
    MissionVerb,
    Order,
    Place,
    Plan,
    Start,
    Table,
    num_units,
    resolve,
    text_of,
)
from jaxgym.envs.babyai.rooms import Rooms
from jaxgym.envs.common.draws import Draws, Stream
from jaxgym.envs.minigrid.world import (
    EMPTY,
    WALL,
    Color,
    MiniGridAction,
    Type,
    appearance_of,
    number_of,
    thing,
    type_of,
)

PREFIX = "BabyAI-"
SIDE = 22
"""Side of the grids that levels are padded to with walls, so that a few programs play all of them."""

NUM_STEPS, NUM_FRAMES = 320, 16
VERBS = {"goto": MissionVerb.GO_TO, "open": MissionVerb.OPEN, "pickup": MissionVerb.PICK_UP, "putnext": MissionVerb.PUT}
PLACES = {None: Place.ANYWHERE, **{place.name.lower(): place for place in Place}}
REASONS = {
    "unreachable object": original.UNREACHABLE,
    "all objects reachable": original.ALL_REACHABLE,
    "objs already next to each other": original.ADJACENT,
    "match both lhs and rhs": original.SAME,
    "cannot do anything with/to a key": original.LOCKS_KEY,
    "cannot move an object next to itself": original.SAME,
    "rejection sampling failed in place_obj": original.NO_ROOM,
    "failed to find suitable object": original.NO_MATCH,
    "can only have one blue or red ball": "a red or blue ball among the others",
}


def load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the meta data of a recording."""
    with np.load(path) as archive:
        arrays = {key: archive[key] for key in archive.files}
    return arrays, json.loads(str(arrays.pop("meta")))


def things_of(encoded: np.ndarray) -> np.ndarray:
    """Return the things of minigrid's encoding, (..., 3)."""
    kind, color, state = np.moveaxis(encoded.astype(np.uint16), -1, 0)
    return kind | color << 4 | state << 7


def start_of(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> np.ndarray:
    """Return the things in the cells at the start, with the object that the agent then carries; uint16 (W, H)."""
    cells = things_of(arrays["grid"][0])
    if meta["start_carry_pos"]:
        cells[tuple(meta["start_carry_pos"])] = thing(*arrays["carrying"][0].tolist())
    return cells


def recorded_level(arrays: dict[str, np.ndarray], meta: dict[str, Any], room_size: int) -> Level:
    """Return the recorded level, padded with walls; its mission is resolved from the recorded clauses."""
    start = start_of(arrays, meta)
    cells = np.full((SIDE, SIDE), WALL, np.uint16)
    cells[: start.shape[0], : start.shape[1]] = start
    x, y = np.nonzero(type_of(cells) >= Type.DOOR)
    cells[x, y] |= np.arange(len(x), dtype=np.uint16) << 9
    padding = (0, NUM_THINGS - len(x))
    things = np.pad(cells[x, y], padding, constant_values=EMPTY)
    pose = Start(*arrays["agent_pos"][0].tolist(), int(arrays["agent_dir"][0]))
    content = [thing(*each[2:].tolist(), number=NUM_THINGS - 1) for each in arrays["contains"]] or [EMPTY]
    return Level(
        cells=cells,
        position=arrays["agent_pos"][0].astype(np.int32),
        direction=np.int32(pose.direction),
        content=np.uint16(content[0]),
        mission=resolve(
            np, plan_of(meta["instr"]), Table(things, np.pad(x, padding), np.pad(y, padding)), pose, room_size
        ),
    )


def plan_of(instr: dict[str, Any]) -> Plan:
    """Return the plan of recorded clauses."""
    match instr["kind"]:
        case "before":
            return Plan((*phrase_of(instr["a"]), *phrase_of(instr["b"])), int(Order.THEN))
        case "after":
            return Plan((*phrase_of(instr["b"]), *phrase_of(instr["a"])), int(Order.AFTER))
        case _:
            return Plan((*phrase_of(instr), Clause(), Clause()))


def phrase_of(instr: dict[str, Any]) -> tuple[Clause, Clause]:
    if instr["kind"] == "and":
        return clause_of(instr["a"]), clause_of(instr["b"])
    return clause_of(instr), Clause()


def clause_of(instr: dict[str, Any]) -> Clause:
    named = [instr["move"], instr["fixed"]] if instr["kind"] == "putnext" else [instr["desc"]]
    descriptions = [
        Description(
            int(Type[each["type"].upper()]) if each["type"] else 0,
            int(Color[each["color"].upper()]) if each["color"] else ANY_COLOR,
            int(PLACES[each["loc"]]),
        )
        for each in named
    ]
    return Clause(int(VERBS[instr["kind"]]), *descriptions)


def strict_clauses(instr: dict[str, Any]) -> int:
    """Return the number of clauses, from the first on, that are strict."""
    phrases = [instr["a"], instr["b"]] if instr["kind"] in ("before", "after") else [instr]
    is_strict = [phrase.get("strict", False) for phrase in phrases]
    return 4 if all(is_strict) else int(is_strict[0])


@functools.cache
def player(num_strict: int, starts_carrying: bool) -> Any:
    """Return a program from level, actions, time limit and times to all steps, and frames at these times."""
    rooms = Rooms(SIDE, 1, 1)
    declared = LevelClass(rooms, lambda _: Plan(()), 0, num_strict=num_strict, starts_carrying=starts_carrying)
    envs = [
        BabyAI(env_id="Replay-v0", initial_params=EnvParams(), level_class=declared, observation=name, tile_size=8)
        for name in ("symbolic", "pixels", "full_pixels")
    ]

    @jax.jit
    def play(level: Level, actions: jax.Array, limit: jax.Array, times: jax.Array) -> Any:
        env, params = envs[0], EnvParams(max_steps_in_episode=limit)

        def step(state: Any, action: jax.Array) -> Any:
            seen, after, reward, terminated, info = env.step_env(jax.random.key(0), state, action, params)
            return after, (seen, after, reward, terminated, env.is_truncated(after, params), info["success"])

        first = env.initial_state(level, params)
        seen = env.observe(jax.random.key(0), first, None, params)
        later, states, *results = jax.lax.scan(step, first, actions)[1]
        seen, states = (
            jax.tree.map(lambda one, rest: jnp.concatenate([jnp.asarray(one)[None], rest]), *pair)
            for pair in ((seen, later), (first, states))
        )
        shown = jax.tree.map(lambda leaf: leaf[times], states)
        frames = [
            jax.lax.map(lambda state, drawn=each: drawn.observe_scene(drawn.scene(state, params)), shown)
            for each in envs[1:]
        ]
        return seen, states.world, results, [each["image"] for each in frames]

    return play


def check_level(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Compare the level of the recorded seed with the recorded one."""
    level_class = table.LEVELS[meta["id"].removeprefix(PREFIX)]
    stream = Stream(Draws.of([meta["seed"]], 256), 0)
    level, reasons = original.draw_level(level_class, stream)
    equal(appearance_of(level.cells), start_of(arrays, meta), "cells of the level")
    equal(level.position, arrays["agent_pos"][0], "start")
    equal(level.direction, arrays["agent_dir"][0], "direction at the start")
    assert text_of(level.mission.tokens) == meta["mission"], f"{text_of(level.mission.tokens)} != {meta['mission']}"
    equal(
        reasons, [next(REASONS[part] for part in REASONS if part in each) for each in meta["rejections"]], "rejections"
    )
    units = num_units(level.mission.verbs) if level_class.is_per_unit else 1
    equal(level_class.steps * units, meta["max_steps"], "time limit")
    held = [(*place, *thing_parts(level.content)) for place in places_of(level)] if level.content != EMPTY else []
    equal(np.reshape(held, (-1, 4)), arrays["contains"], "contents of boxes")
    equal(level_class.num_strict, strict_clauses(meta["instr"]), "strict clauses")


def floor_of(cells: np.ndarray, matches: np.ndarray) -> np.ndarray:
    """Return the cells of a level without the things that its first description matches, uint16 (W, H)."""
    is_carried = (type_of(cells) >= Type.DOOR) & (matches[np.minimum(number_of(cells), NUM_THINGS - 1)] & 1 > 0)
    return np.where(is_carried, np.uint16(EMPTY), cells)


def places_of(level: Level) -> list[tuple[int, ...]]:
    return [tuple(place) for place in np.argwhere(type_of(level.cells) == Type.BOX).tolist()]


def thing_parts(each: Any) -> tuple[int, int]:
    return int(each) & 15, int(each) >> 4 & 7


def check_episode(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Compare the steps and the frames of an episode with the recorded ones."""
    level = recorded_level(arrays, meta, table.LEVELS[meta["id"].removeprefix(PREFIX)].rooms.size)
    num_steps, carries = len(arrays["actions"]), meta["start_carry_pos"] is not None
    actions = np.full(NUM_STEPS, MiniGridAction.DONE, np.int32)
    actions[:num_steps] = arrays["actions"]
    times = np.resize(np.concatenate([arrays["pov_t"], arrays["full_t"]]), NUM_FRAMES).astype(np.int32)
    play = player(strict_clauses(meta["instr"]), carries)
    seen, world, results, frames = jax.device_get(play(level, actions, np.int32(meta["max_steps"]), times))
    reward, terminated, truncated, success = (each[:num_steps] for each in results)
    span, (width, height) = slice(num_steps + 1), arrays["grid"].shape[1:3]
    assert {text_of(tokens) for tokens in seen["mission"][span]} == {meta["mission"]}
    equal(seen["image"][span], arrays["image"], "image")
    equal(seen["direction"][span], arrays["agent_dir"], "direction")
    equal(appearance_of(world.cells[span, :width, :height]), things_of(arrays["grid"]), "cells")
    equal(world.position[span], arrays["agent_pos"], "position")
    held = arrays["carrying"].astype(np.uint16)
    equal(
        appearance_of(world.carrying[span]), np.where(held[:, 0] == 0, EMPTY, held[:, 0] | held[:, 1] << 4), "carrying"
    )
    equal(reward, arrays["reward"].astype(np.float32), "reward")
    equal(terminated, arrays["terminated"], "terminated")
    equal(truncated, arrays["truncated"], "truncated")
    assert bool(success[-1]) == meta["success"]
    views, grids = (np.asarray(each) for each in frames)
    split, first = len(arrays["pov_t"]), int(carries)
    equal(views[first:split], arrays["pov8"][first:], "frames of the view")
    shown = grids[split : split + len(arrays["full_t"]), : 8 * height, : 8 * width]
    equal(shown[first:], arrays["full8"][first:], "frames of the grid")


def equal(found: Any, expected: Any, what: str) -> None:
    np.testing.assert_array_equal(found, expected, err_msg=what)


def num_failures(checks: Iterable[tuple[str, Callable[[], None]]]) -> int:
    """Run named checks; print the first difference of each failed one and a line of counts; return the failures.

    In a terminal, a progress bar counts the checks.
    """
    counts = {True: 0, False: 0}
    for name, check in tqdm(checks, unit=" episodes", disable=None):
        try:
            check()
        except AssertionError as error:
            print(f"{name}: {' '.join(str(error).split())[:600]}", flush=True)  # noqa: T201 — a command line speaks.
            counts[False] += 1
        else:
            counts[True] += 1
    print(f"{counts[True]} passed, {counts[False]} failed", flush=True)  # noqa: T201 — likewise.
    return counts[False]


def check_file(path: Path) -> None:
    """Compare the level and the episode of a recording."""
    arrays, meta = load(path)
    check_level(arrays, meta)
    check_episode(arrays, meta)


def main(folder: str) -> int:
    """Check all recordings of a folder; return the number of failures."""
    paths = (path for path in sorted(Path(folder).glob("*__*.npz")) if load(path)[1]["id"].startswith(PREFIX))
    return num_failures((path.stem, functools.partial(check_file, path)) for path in paths)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) > 0)
