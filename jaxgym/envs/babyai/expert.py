"""Scripted expert of BabyAI: it knows the whole level, and plans each action anew.

The first clause that is not fulfilled gives a task: bring something, or nothing, in front of one of some cells, then
act. A locked door that must be opened first is such a task, too. A task has up to two legs, to fetch a thing and to
deliver it. Something in the way, or a useless thing in the hand, gives an errand before it: take away what is in the
way, or drop what the agent carries on a cell that the task does not need.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.babyai import game
from jaxgym.envs.babyai.mission import NUM_CLAUSES, MissionVerb
from jaxgym.envs.babyai.paths import FAR, Leg, beside, follow, in_front, leg_to, region
from jaxgym.envs.minigrid.world import (
    EMPTY,
    Color,
    Direction,
    Door,
    GridWorld,
    MiniGridAction,
    Type,
    color_of,
    coordinates,
    number_of,
    state_of,
    step_of,
    type_of,
)

_LAST = {
    MissionVerb.NONE: MiniGridAction.DONE,
    MissionVerb.GO_TO: MiniGridAction.DONE,
    MissionVerb.OPEN: MiniGridAction.TOGGLE,
    MissionVerb.PICK_UP: MiniGridAction.PICKUP,
    MissionVerb.PUT: MiniGridAction.DROP,
}
"""The action that fulfills a clause in front of its target, by verb."""

_CLEAR, _CLEAR_LADEN = 6, 30
"""Cost of a thing in the way, in actions, of an agent with free hands and of one that carries something."""

_NEEDED = 40
"""Cost of a drop on a cell that the task needs."""

_MOST_LEFT = 500
"""Limit of the cost of what follows, which is impossible until the agent drops what it carries."""


@struct.dataclass
class Surroundings:
    """Facts about a state, from which the expert plans.

    Attributes:
        cells: The thing in each cell, uint16 (W, H).
        kind: `Type` of each thing, int32 (W, H).
        is_lock: Locked doors, bool (W, H).
        is_box: Boxes that a toggle removes and that the mission does not need, bool (W, H).
        is_thing: Other keys, balls and boxes, bool (W, H).
        entry: Cost of entering each cell where nothing is in the way, int32 (W, H).
        is_near: Cells that the agent can face without opening a lock, bool (W, H).
        carrying: The thing that the agent carries, uint16 ().
        has_hands_free: Whether it carries nothing, bool ().
    """

    cells: jax.Array
    kind: jax.Array
    is_lock: jax.Array
    is_box: jax.Array
    is_thing: jax.Array
    entry: jax.Array
    is_near: jax.Array
    carrying: jax.Array
    has_hands_free: jax.Array

    def entry_with(self, thing_cost: jax.Array | int) -> jax.Array:
        """Return the cost of entering each cell, int32 (W, H), given that of a thing in the way."""
        return jnp.where(self.is_thing, thing_cost, self.entry)


@struct.dataclass
class Task:
    """Bring something in front of one of some cells, then act.

    Attributes:
        targets: Cost of the last actions in front of each cell, int32 (W, H); `FAR` for cells that are no target.
        last: The last action, int32 ().
        cargo: Cells of the things of which one must be brought, bool (W, H).
        needs_cargo: Whether something must be brought, bool ().
        has_cargo: Whether the agent carries such a thing, bool ().
        needs_hands: Whether the agent must carry nothing else, bool ().
        is_possible: Whether the agent can do it without opening a lock, bool ().
    """

    targets: jax.Array
    last: jax.Array
    cargo: jax.Array
    needs_cargo: jax.Array
    has_cargo: jax.Array
    needs_hands: jax.Array
    is_possible: jax.Array


def action(env: game.BabyAI, state: game.State, params: Any) -> jax.Array:
    """Return the next action of the plan, int32 (); `DONE` if the mission can't be fulfilled."""
    del params
    clause = jnp.argmin(state.progress.is_over).astype(jnp.int32)
    around = _surroundings(state, is_strict=env.level_class.num_strict > 0)
    own = _task_of(state, around, clause)
    unlocking = _unlocking(state, around, clause)
    use_own = own.is_possible | ~unlocking.is_possible
    task = jax.tree.map(lambda one, other: jnp.where(use_own, one, other), own, unlocking)
    is_shown = (state.level.mission.verbs[clause] == MissionVerb.GO_TO) & _fits(state, around.carrying, 2 * clause)
    costs = (FAR, FAR) if env.level_class.num_strict else (_CLEAR, _CLEAR_LADEN)
    return _act(state.world, around, task, is_shown, costs)


def _fits(state: game.State, things: jax.Array, description: jax.Array) -> jax.Array:
    """Return which things match a description of the mission, given by its bit; bool of the shape of `things`."""
    bits = state.level.mission.matches.at[number_of(things)].get(mode="clip").astype(jnp.int32)
    return (type_of(things) >= Type.DOOR) & (bits >> description & 1 > 0)


def _surroundings(state: game.State, *, is_strict: bool) -> Surroundings:
    """Return the facts about a state; a strict mission leaves no way through things but boxes."""
    world, cells = state.world, state.world.cells
    kind, door = type_of(cells), state_of(cells)
    is_door, is_portable = kind == Type.DOOR, (kind >= Type.KEY) & (kind <= Type.BOX)
    pending = jnp.sum(jnp.where(state.progress.is_over, 0, 3 << 2 * np.arange(NUM_CLAUSES))).astype(jnp.int32)
    bits = state.level.mission.matches.at[number_of(cells)].get(mode="clip").astype(jnp.int32)
    is_box = (kind == Type.BOX) & (bits & pending == 0) & (state.level.content == EMPTY)
    is_lock, is_shut = is_door & (door == Door.LOCKED), is_door & (door == Door.CLOSED)
    entry = jnp.where(is_box | is_shut, 1, jnp.where((kind == Type.WALL) | is_lock, FAR, 0)).astype(jnp.int32)
    is_thing = is_portable & ~is_box
    reached = region(world.position, (entry < FAR) & ~(is_thing & is_strict))
    return Surroundings(
        cells=cells,
        kind=kind,
        is_lock=is_lock,
        is_box=is_box,
        is_thing=is_thing,
        entry=entry,
        is_near=reached | beside(reached),
        carrying=world.carrying,
        has_hands_free=world.carrying == EMPTY,
    )


def _task_of(state: game.State, around: Surroundings, clause: jax.Array) -> Task:
    """Return the task of a clause."""
    cells, verb = around.cells, state.level.mission.verbs[clause].astype(jnp.int32)
    is_go, is_open, is_pick, is_put = (verb == each for each in tuple(MissionVerb)[1:])
    fits, has_first = _fits(state, cells, 2 * clause), _fits(state, around.carrying, 2 * clause)
    is_open_door = (around.kind == Type.DOOR) & (state_of(cells) == Door.OPEN)
    has_key = (type_of(around.carrying) == Type.KEY) & (color_of(around.carrying) == color_of(cells))
    place_cost = jnp.where(
        around.kind == Type.DOOR, FAR, around.entry_with(jnp.where(fits & ~has_first, 0, _CLEAR_LADEN))
    )
    is_place = beside(_fits(state, cells, 2 * clause + 1)) & (place_cost < FAR)
    targets = jnp.where(
        is_go,
        jnp.where(_fits(state, state.progress.tracked, 2 * clause), 0, FAR),
        jnp.where(
            is_open,
            # An open door must be closed first.
            jnp.where(fits & (~around.is_lock | has_key), jnp.where(is_open_door, 2, 1), FAR),
            jnp.where(is_pick, jnp.where(fits, 1, FAR), jnp.where(is_place, 1 + place_cost, FAR)),
        ),
    ).astype(jnp.int32)
    # A target that the agent carries is one after a drop.
    is_in_hand = jnp.where(is_put, _fits(state, around.carrying, 2 * clause + 1), has_first)
    is_at_hand = ~is_put | has_first | jnp.any(fits & around.is_near)
    return Task(
        targets=targets,
        last=jnp.asarray([_LAST[each] for each in MissionVerb], jnp.int32)[verb],
        cargo=fits,
        needs_cargo=is_put,
        has_cargo=is_put & has_first,
        needs_hands=is_pick | is_put,
        is_possible=is_at_hand & (is_in_hand | jnp.any((targets < FAR) & around.is_near)),
    )


def _unlocking(state: game.State, around: Surroundings, clause: jax.Array) -> Task:
    """Return the task to open a lock whose key is in reach, or to open a box with a key."""
    cells, content = around.cells, state.level.content
    is_key, boxes = around.kind == Type.KEY, (around.kind == Type.BOX) & around.is_near
    on_floor = jnp.stack([jnp.any(is_key & around.is_near & (color_of(cells) == color)) for color in Color])
    in_hand = (type_of(around.carrying) == Type.KEY) & (color_of(around.carrying) == np.arange(len(Color)))
    in_box = (type_of(content) == Type.KEY) & (color_of(content) == np.arange(len(Color))) & jnp.any(boxes)
    locks = around.is_lock & around.is_near & (on_floor | in_hand | in_box)[color_of(cells)]
    own = locks & _fits(state, cells, 2 * clause) & (state.level.mission.verbs[clause] == MissionVerb.OPEN)
    locks = jnp.where(jnp.any(own), own, locks)
    color = color_of(cells).reshape(-1)[jnp.argmax(locks)]
    is_boxed = ~(on_floor | in_hand)[color]
    targets = jnp.where(is_boxed, boxes, locks & (color_of(cells) == color))
    return Task(
        targets=jnp.where(targets, 1, FAR).astype(jnp.int32),
        last=jnp.int32(MiniGridAction.TOGGLE),
        cargo=is_key & (color_of(cells) == color),
        needs_cargo=~is_boxed,
        has_cargo=in_hand[color],
        needs_hands=~is_boxed,
        is_possible=jnp.any(locks),
    )


def _act(
    world: GridWorld, around: Surroundings, task: Task, is_shown: jax.Array, clear_costs: tuple[int, int]
) -> jax.Array:
    """Return the next action of a task.

    Args:
        world: The grid and the agent.
        around: The facts about the state.
        task: The task.
        is_shown: Whether a drop of what the agent carries fulfills the clause at once, bool ().
        clear_costs: Cost of a thing in the way, with free hands and with something in them.
    """
    is_free, fetches = around.has_hands_free, task.needs_cargo & ~task.has_cargo
    free, laden = (around.entry_with(cost) for cost in clear_costs)
    taken = task.cargo & fetches
    is_laden = task.needs_cargo | ~(is_free | task.needs_hands)
    deliver = leg_to(in_front(task.targets), jnp.where(taken, 0, jnp.where(is_laden, laden, free)))
    fetch_goals = jnp.where(
        fetches, jnp.where(in_front(taken), 1 + jnp.minimum(deliver.costs, _MOST_LEFT), FAR), deliver.costs
    )
    fetch = leg_to(fetch_goals, jnp.where(fetches, free, deliver.entry))

    # The paths of the plan. After a drop, the agent turns before it goes on.
    is_useless = ~is_free & task.needs_hands & ~task.has_cargo
    turn = jnp.where(fetch.turns_left(world.position, world.direction), -1, 1)
    direction = (world.direction + jnp.where(is_useless, turn, 0)) % len(Direction)
    to_cargo = follow(world.position, direction, fetch, around.is_thing)
    picked = _only(to_cargo.position + step_of(to_cargo.direction), around.cells)
    obstacles = around.is_thing & ~(picked & fetches)
    to_target = follow(to_cargo.position, to_cargo.direction, deliver, obstacles)
    end = to_target.position + step_of(to_target.direction)
    is_blocked = to_target.is_blocked | ((task.last == MiniGridAction.DROP) & obstacles[end[0], end[1]])

    clears, drops = fetches & is_blocked, is_shown | is_useless | (~is_free & is_blocked)
    obstacle = _only(jnp.where(to_target.is_blocked, to_target.obstacle, end), around.cells)
    clear_goals = jnp.where(clears, jnp.where(in_front(obstacle), 1, FAR), fetch.costs)
    clear = leg_to(clear_goals, jnp.where(clears, free, fetch.entry))
    needed = (to_target.is_on | _only(end, around.cells)) & fetches
    drop_goals = jnp.where(drops, _drop_goals(around, clear, needed), clear.costs)
    drop = leg_to(drop_goals, jnp.where(drops, around.entry_with(FAR), clear.entry))

    leg, last = deliver, task.last
    for is_due, other, other_last in (
        (fetches, fetch, MiniGridAction.PICKUP),
        (clears, clear, MiniGridAction.PICKUP),
        (drops, drop, MiniGridAction.DROP),
    ):
        leg = jax.tree.map(partial(jnp.where, is_due), other, leg)
        last = jnp.where(is_due, other_last, last)
    return _along(world, around, leg, last)


def _only(position: jax.Array, cells: jax.Array) -> jax.Array:
    """Return the mask of one cell, bool (W, H)."""
    x, y = coordinates(*cells.shape)
    return (x == position[0]) & (y == position[1])


def _drop_goals(around: Surroundings, after: Leg, needed: jax.Array) -> jax.Array:
    """Return the cost of a drop in front of each pose and of what follows, int32 (4, W, H).

    The drop should be neither on a cell that is needed nor where the only best path goes on, nor from a door: what is
    dropped there is out of reach from the other side.
    """
    costs = jnp.minimum(jnp.roll(after.costs, 1, axis=0), jnp.roll(after.costs, -1, axis=0))
    is_bad = in_front(needed) | (after.goes_on() & (costs > after.costs)) | (around.kind == Type.DOOR)[None]
    total = 2 + jnp.minimum(costs, 2 * _MOST_LEFT) + jnp.where(is_bad, _NEEDED, 0)
    return jnp.where(in_front(around.cells == EMPTY), total, FAR)


def _along(world: GridWorld, around: Surroundings, leg: Leg, last: jax.Array) -> jax.Array:
    """Return the next action of a leg, int32 (); `last` is its last one."""
    x, y = world.position + step_of(world.direction)
    pose, ahead = (world.direction, *world.position), around.cells[x, y]
    is_box, is_shut = around.is_box[x, y], (type_of(ahead) == Type.DOOR) & (state_of(ahead) != Door.OPEN)
    forward = jnp.where(is_box | is_shut, MiniGridAction.TOGGLE, MiniGridAction.FORWARD)
    forward = jnp.where(around.is_thing[x, y], MiniGridAction.PICKUP, forward)
    turn = jnp.where(leg.turns_left(world.position, world.direction), MiniGridAction.LEFT, MiniGridAction.RIGHT)
    last = jnp.where((last == MiniGridAction.DROP) & is_box, MiniGridAction.TOGGLE, last)
    chosen = jnp.where(leg.goals[pose] == leg.costs[pose], last, jnp.where(leg.goes_on()[pose], forward, turn))
    return jnp.where(leg.costs[pose] < FAR, chosen, MiniGridAction.DONE).astype(jnp.int32)
