"""Cheapest paths of the agent through a grid, counted in actions.

A pose is a direction and a cell: arrays of poses have the shape (4, W, H). The border of a grid can't be entered, so a
shift of a grid may wrap around.
"""

import jax
import jax.numpy as jnp
from flax import struct

from jaxgym.envs.minigrid.world import STEPS, Direction, step_of

FAR = 1 << 20
"""Cost of what is impossible, larger than the cost of any path."""


@struct.dataclass
class Leg:
    """Part of a plan: the cheapest paths from all poses to some goals.

    Attributes:
        goals: Cost of ending in each pose, int32 (4, W, H); `FAR` where the path can't end.
        entry: Cost of entering each cell in addition to the step, int32 (W, H); `FAR` if it can't be entered.
        costs: Cost of the cheapest path from each pose, int32 (4, W, H); `FAR` if there is none.
    """

    goals: jax.Array
    entry: jax.Array
    costs: jax.Array

    def goes_on(self) -> jax.Array:
        """Return from which poses the cheapest path goes forward, bool (4, W, H)."""
        return (self.costs == 1 + _ahead(self.costs + self.entry[None])) & (self.costs < FAR)

    def turns_left(self, position: jax.Array, direction: jax.Array) -> jax.Array:
        """Return whether a turn left is better than a turn right, bool ()."""
        around = self.costs[:, position[0], position[1]]
        return around[(direction - 1) % len(Direction)] < around[(direction + 1) % len(Direction)]


@struct.dataclass
class Path:
    """Cheapest path from a pose.

    Attributes:
        position: x and y of its end, int32 (2,).
        direction: `Direction` at its end, int32 ().
        is_on: The cells that it enters, bool (W, H).
        obstacle: The first obstacle on it, x and y, int32 (2,); its end if there is none.
        is_blocked: Whether there is an obstacle on it, bool ().
    """

    position: jax.Array
    direction: jax.Array
    is_on: jax.Array
    obstacle: jax.Array
    is_blocked: jax.Array


def in_front(grid: jax.Array) -> jax.Array:
    """Return what is in front of each pose; (W, H) to (4, W, H)."""
    return _ahead(jnp.broadcast_to(grid, (len(Direction), *grid.shape)))


def _ahead(poses: jax.Array) -> jax.Array:
    """Return the value of the pose one step ahead of each pose."""
    return jnp.stack([jnp.roll(each, (-dx, -dy), (0, 1)) for each, (dx, dy) in zip(poses, STEPS.tolist(), strict=True)])


def beside(mask: jax.Array) -> jax.Array:
    """Return the cells with a neighbor in a mask; bool (W, H) to bool (W, H)."""
    return jnp.any(in_front(mask), axis=0)


def region(position: jax.Array, is_passable: jax.Array) -> jax.Array:
    """Return the cells that are connected to a cell by passable ones, bool (W, H)."""
    start = jnp.zeros_like(is_passable).at[position[0], position[1]].set(True)

    def grow(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reached, _ = carry
        larger = reached | (beside(reached) & is_passable)
        return larger, jnp.any(larger != reached)

    return jax.lax.while_loop(lambda carry: carry[1], grow, (start, jnp.bool_(True)))[0]


def leg_to(goals: jax.Array, entry: jax.Array) -> Leg:
    """Return the leg to some goals; see `Leg` for the arguments."""

    def relax(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        costs, _ = carry
        straight = jnp.minimum(costs, 1 + _ahead(costs + entry[None]))
        turned = jnp.minimum(jnp.roll(straight, 1, axis=0), jnp.roll(straight, -1, axis=0))
        around = jnp.roll(straight, 2, axis=0)
        cheaper = jnp.minimum(straight, jnp.minimum(turned + 1, around + 2))
        return cheaper, jnp.any(cheaper < costs)

    goals = jnp.minimum(goals, FAR)
    return Leg(goals, entry, jax.lax.while_loop(lambda carry: carry[1], relax, (goals, jnp.bool_(True)))[0])


def follow(position: jax.Array, direction: jax.Array, leg: Leg, obstacles: jax.Array) -> Path:
    """Follow the cheapest path from a pose to its end, and note the first of some obstacles, bool (W, H)."""
    goes_on = leg.goes_on()

    def is_under_way(path: Path) -> jax.Array:
        pose = (path.direction, *path.position)
        return (leg.costs[pose] < leg.goals[pose]) & (leg.costs[pose] < FAR)

    def advance(path: Path) -> Path:
        moves = goes_on[path.direction, *path.position]
        position = path.position + jnp.where(moves, step_of(path.direction), 0)
        turn = jnp.where(leg.turns_left(path.position, path.direction), -1, 1)
        x, y = position
        return Path(
            position=position,
            direction=(path.direction + jnp.where(moves, 0, turn)) % len(Direction),
            is_on=path.is_on.at[x, y].set(path.is_on[x, y] | moves),
            obstacle=jnp.where(path.is_blocked, path.obstacle, position),
            is_blocked=path.is_blocked | (moves & obstacles[x, y]),
        )

    start = Path(position, direction, jnp.zeros_like(obstacles), position, jnp.bool_(False))
    return jax.lax.while_loop(is_under_way, advance, start)
