"""The verifier of missions: what fulfills or fails each clause, and in which order.

These rules of the original surprise:

- "go to" looks for the positions of the last drop, or of the start. So it also succeeds in front of the place where a
  thing was picked up, or where a box was opened.
- A clause notes what the agent carries only while it is checked. So "pick up" does not count for a thing that the agent
  already holds when the clause's turn comes.
- The second phrase is first checked in the step in which the first phrase is fulfilled, with the same action.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.babyai.mission import NUM_CLAUSES, Mission, MissionVerb
from jaxgym.envs.minigrid.world import (
    EMPTY,
    STEPS,
    Door,
    GridWorld,
    MiniGridAction,
    Type,
    number_of,
    state_of,
    step_of,
    type_of,
)


@struct.dataclass
class Progress:
    """Progress of a mission.

    Attributes:
        tracked: The cells at the last drop, or at the start, uint16 (W, H). They hold the positions for "go to".
        held: What the agent carried when each clause was last checked, uint16 (4,).
        is_over: The clauses that are fulfilled or unused, bool (4,).
    """

    tracked: jax.Array
    held: jax.Array
    is_over: jax.Array


def first_progress(cells: jax.Array, mission: Mission) -> Progress:
    """Return the progress at the start; `cells` are those on which the descriptions were resolved."""
    return Progress(
        cells, jnp.full(NUM_CLAUSES, EMPTY, jnp.uint16), mission.verbs.astype(jnp.int32) == MissionVerb.NONE
    )


def check(
    mission: Mission, progress: Progress, world: GridWorld, action: jax.Array, num_strict: int | jax.Array
) -> tuple[Progress, jax.Array, jax.Array]:
    """Check the clauses after a step.

    Args:
        mission: The mission.
        progress: The progress before the step.
        world: The world after the step.
        action: The action of the step, int32 ().
        num_strict: Number of clauses, from the first on, that fail on a wrong door or object.

    Returns:
        The progress, whether the mission is fulfilled, bool (), and whether it has failed, bool ().
    """
    tracked = jnp.where(action == MiniGridAction.DROP, world.cells, progress.tracked)
    fulfilled, failed = _outcomes(mission, dataclasses.replace(progress, tracked=tracked), world, action, num_strict)
    was_over = progress.is_over
    first_over = was_over | fulfilled
    is_second_due = first_over[0] & first_over[1]
    is_checked = ~was_over & jnp.where(np.arange(NUM_CLAUSES) < NUM_CLAUSES // 2, True, is_second_due)
    is_over = was_over | (is_checked & fulfilled)
    held = jnp.where(is_checked, world.carrying, progress.held)
    return Progress(tracked, held, is_over), jnp.all(is_over), jnp.any(is_checked & failed)


def _outcomes(
    mission: Mission, progress: Progress, world: GridWorld, action: jax.Array, num_strict: int | jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return which clauses this step fulfills and which it fails, two bool (4,), if they are checked."""
    front = world.position + step_of(world.direction)
    ahead = world.cells[front[0], front[1]]
    around = front[None] + STEPS
    # Things are dropped on free floor, which the outer walls surround, so all neighbors are in the grid.
    neighbors = world.cells[around[:, 0], around[:, 1]]
    first, second = 2 * np.arange(NUM_CLAUSES), 2 * np.arange(NUM_CLAUSES) + 1
    is_door, holds = type_of(ahead) == Type.DOOR, world.carrying != EMPTY
    went = _matches(mission, progress.tracked[front[0], front[1]], first)
    toggled = action == MiniGridAction.TOGGLE
    opened = toggled & is_door & (state_of(ahead) == Door.OPEN) & _matches(mission, ahead, first)
    took = action == MiniGridAction.PICKUP
    picked = took & (progress.held == EMPTY) & _matches(mission, world.carrying, first)
    is_next = jnp.any(_matches(mission, neighbors[:, None], second[None]), axis=0)
    dropped = (action == MiniGridAction.DROP) & (progress.held != EMPTY) & (ahead == progress.held)
    put = dropped & _matches(mission, progress.held, first) & is_next
    verbs = mission.verbs.astype(jnp.int32)
    is_opening, is_picking = verbs == MissionVerb.OPEN, verbs == MissionVerb.PICK_UP
    fulfilled = ((verbs == MissionVerb.GO_TO) & went) | (is_opening & opened) | (is_picking & picked)
    fulfilled |= (verbs == MissionVerb.PUT) & put
    failed = (is_opening & toggled & is_door) | (is_picking & took & holds)
    is_strict = np.arange(NUM_CLAUSES) < num_strict
    return fulfilled, is_strict & failed & ~fulfilled


def _matches(mission: Mission, things: jax.Array, descriptions: np.ndarray) -> jax.Array:
    """Return whether things match descriptions, given by their bits; the shapes are broadcast."""
    bits = mission.matches.at[number_of(things)].get(mode="clip").astype(jnp.int32)
    return (type_of(things) >= Type.DOOR) & (bits >> descriptions & 1 > 0)
