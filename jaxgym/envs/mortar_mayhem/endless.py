"""Endless Mortar Mayhem: a sequence of commands that grows by one command each time it is completed.

Like Mortar Mayhem with free movement, on a torus of 6 × 6 tiles. When the agent completes the sequence, one more
command is shown, and the agent executes the whole sequence again from its current tile. The episode ends at the first
failure.

Source: Pleines et al., Memory Gym (JMLR 26(6), 2025), package memory-gym 1.0.2. Rules and frames are reproduced
exactly, including these peculiarities:

- An agent whose center is outside of the screen stands on no tile and fails every check.
- If the agent fails the check of the last command, the next command is still added to the length of the sequence.
- While a new command is shown, the tiles stay deadly, but the agent cannot move.

Differences: a time limit truncates; in the original it terminates. The original's clue frames of later episodes show
the agent of the previous episode; here they show the current one. An initial length of zero, on which the original
fails, is an error here.
"""

import dataclasses
import math
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts, levels
from jaxgym.environment import Environment, Transition, starts_at
from jaxgym.envs.memory_gym import arena
from jaxgym.envs.mortar_mayhem import game as mortar_mayhem
from jaxgym.envs.mortar_mayhem import scene as seen
from jaxgym.envs.mortar_mayhem.commands import COMMAND_MOVES, COMMANDS, NO_COMMAND, NUM_COMMANDS, select
from jaxgym.envs.mortar_mayhem.visible import Visible, symbols, visible_in
from jaxgym.options import OBSERVATION, Integer, Static, static, traced
from jaxgym.spaces import Box, Discrete, MultiDiscrete, frames_or_symbols

_NUM_TILES = seen.LARGEST_ARENA**2
_LARGEST_TILE = seen.LARGEST_ARENA - 1
_MOST_GIVEN_COMMANDS = 10_000
_SHOWN_COMMANDS = 10


@struct.dataclass
class EndlessMortarMayhemLevel(mortar_mayhem.Level):
    """Sampled parts of an episode.

    `command_count` is the length of the first sequence. `commands` is -1 where commands are drawn from `seed`.

    Attributes:
        seed: Seed of the commands that are not listed, uint32 ().
    """

    seed: jax.Array


@struct.dataclass(kw_only=True)
class EndlessMortarMayhemState(mortar_mayhem.State):
    """Episode state, in addition to the fields of Mortar Mayhem; `num_checks` counts within the current sequence.

    Attributes:
        sequence_length: Number of commands in the current sequence, int32 ().
        commands_completed: Number of passed checks in the episode, int32 ().
        clue_first: Index of the first command to show, int32 ().
        clue_frames: Number of clue frames, int32 ().
        clue_frame: Index of the current clue frame, int32 (); -1 before the first, `clue_frames` after the last.
    """

    sequence_length: jax.Array
    commands_completed: jax.Array = starts_at(0)
    clue_first: jax.Array = starts_at(0)
    clue_frames: jax.Array
    clue_frame: jax.Array = starts_at(0)


@struct.dataclass
class EndlessMortarMayhemParams(mortar_mayhem.CommandParams):
    """The traced options."""

    initial_command_count: jax.Array = traced(
        Integer(1, "length of the first sequence", low=1, high=mortar_mayhem.MOST_COMMANDS)
    )


@dataclasses.dataclass(unsafe_hash=True)
class EndlessMortarMayhem(
    Environment[EndlessMortarMayhemLevel, EndlessMortarMayhemState, EndlessMortarMayhemParams, seen.Scene]
):
    """Endless Mortar Mayhem.

    Observation:
        uint8 (84, 84, 3): row, column, channel. With `observation="symbolic"`, a float32 vector instead (see
        `jaxgym.envs.mortar_mayhem.visible.symbols`).
    Action:
        Horizontal (0 stay, 1 left, 2 right) and vertical (0 stay, 1 up, 2 down), or with `flat_actions` one number
        3 · horizontal + vertical. Ignored while commands are shown.
    Start:
        Near the center of a random tile, heading up.
    Reward:
        `reward_command_success` for each passed check, `reward_command_failure` for a failed one, and for leaving the
        target while the others are deadly.
    End:
        Terminated when a check fails, or when the agent leaves the tile while the others are deadly. Truncated after
        `max_steps`, if it is set.
    Info:
        `reward` and `length` so far, `commands_completed` (their number), `max_command_sequence` (the length of the
        sequence minus one), `ground_truth` (column and row of the target tile divided by 5, float32 (2,)).
    Versions:
        v0: as memory-gym 1.0.2.
    """

    metric: ClassVar[str] = "commands_completed"

    agent_scale: float = static(arena.AGENT_SCALE)
    max_given_commands: int = static(
        Static(
            None,
            "number of commands that a level stores; the seed of the level determines the later ones",
            low=1,
            high=_MOST_GIVEN_COMMANDS,
            none="that of the level buffer, or 1 without one",
        )
    )
    observation: str = static(OBSERVATION)
    flat_actions: bool = static(arena.FLAT_ACTIONS)

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `max_given_commands`."""
        return {"max_given_commands": values["max_given_commands"] or 1}

    def action_space(self, params: EndlessMortarMayhemParams | None = None) -> Discrete | MultiDiscrete:
        """Return the space of three times three actions."""
        return arena.free_space(flat=self.flat_actions)

    def observation_space(self, params: EndlessMortarMayhemParams | None = None) -> Box:
        """Return the space of the observation in the class docstring."""
        # The agent's center may be outside of the screen.
        rim = math.ceil(self.rim_px) / arena.SCREEN_PX
        return frames_or_symbols(self, params, low=-rim, high=1 + rim)

    @property
    def rim_px(self) -> float:
        """Largest distance of the agent's center from the screen."""
        return arena.agent_radius(self.agent_scale) / 2

    def sample_level(self, key: jax.Array, params: EndlessMortarMayhemParams) -> EndlessMortarMayhemLevel:
        """Sample the start, the durations, and the seed of the commands."""
        names = ("tile", "x", "y", *mortar_mayhem.DURATIONS, "seed")
        drawn = dict(zip(names, jax.random.bits(key, (len(names),), jnp.uint32), strict=True))
        start = (drawn["tile"] % jnp.uint32(_NUM_TILES)).astype(jnp.int32)
        return EndlessMortarMayhemLevel(
            start_tile=jnp.stack([start // seen.LARGEST_ARENA, start % seen.LARGEST_ARENA]),
            start_offset_px=mortar_mayhem.start_offset_px(jnp.stack([drawn["x"], drawn["y"]])),
            command_count=jnp.asarray(params.initial_command_count, dtype=jnp.int32),
            commands=jnp.full(self.max_given_commands, -1, dtype=jnp.int32),
            **{name: getattr(params, name).pick(drawn[name]) for name in mortar_mayhem.DURATIONS},
            seed=drawn["seed"],
        )

    def initial_state(
        self, level: EndlessMortarMayhemLevel, params: EndlessMortarMayhemParams
    ) -> EndlessMortarMayhemState:
        """Place the agent near the start tile's center, heading up; the first command gives the first target."""
        return EndlessMortarMayhemState(
            level=level,
            position_px=seen.tile_center_px(level.start_tile, jnp.int32(seen.LARGEST_ARENA)) + level.start_offset_px,
            heading=jnp.int32(arena.Heading.UP),
            target_tile=next_target(level.start_tile, command_at(level, jnp.int32(0), params)),
            sequence_length=level.command_count,
            clue_frames=level.command_count * (level.command_show_duration + level.command_show_delay),
        )

    def transition(
        self, state: EndlessMortarMayhemState, action: jax.Array, params: EndlessMortarMayhemParams
    ) -> Transition:
        """Show the next clue, or move the agent, check the command and advance the explosion."""
        clue_frame = state.clue_frame + 1
        is_clue = clue_frame < state.clue_frames
        acted, reward, terminated = act(self.move(state, action, params), params)
        shown = dataclasses.replace(state, clue_frame=clue_frame)
        after = jax.tree.map(partial(jnp.where, is_clue), shown, acted)
        metrics = {
            "commands_completed": after.commands_completed,
            "max_command_sequence": after.sequence_length - 1,
            "ground_truth": self.ground_truth(after),
        }
        return Transition(after, jnp.where(is_clue, jnp.float32(0.0), reward), terminated & ~is_clue, metrics)

    def ground_truth(self, state: EndlessMortarMayhemState) -> jax.Array:
        """Return column and row of the target tile divided by 5, float32 (2,)."""
        return state.target_tile.astype(jnp.float32) / np.float32(_LARGEST_TILE)

    def move(
        self, state: EndlessMortarMayhemState, action: jax.Array, params: EndlessMortarMayhemParams
    ) -> EndlessMortarMayhemState:
        """Move the agent on the torus by a real displacement, rounded to whole px."""
        direction = arena.direction_of(arena.free_action(action) if self.flat_actions else action)
        is_diagonal = jnp.all(direction != 0)
        length = jnp.where(is_diagonal, params.agent_speed / np.float32(np.sqrt(2)), params.agent_speed)
        moved = arena.round_half_away(state.position_px.astype(jnp.float32) + direction.astype(jnp.float32) * length)
        position = arena.wrap_px(moved.astype(jnp.float32), self.rim_px)
        return dataclasses.replace(state, heading=arena.heading_of(direction, state.heading), position_px=position)

    def scene(self, state: EndlessMortarMayhemState, params: EndlessMortarMayhemParams) -> seen.Scene:
        """Return the scene: the agent, the shown command and the safe tile."""
        return seen.Scene(
            arena_size=jnp.int32(seen.LARGEST_ARENA),
            agent_position_px=state.position_px,
            agent_heading=state.heading,
            command=jnp.where(is_clue_seen(state), clue_at(state, params), NO_COMMAND),
            safe_tile=jnp.where(state.tiles_on & params.visual_feedback, state.target_tile, -1),
            commands=None,
        )

    def hidden(self, state: EndlessMortarMayhemState, params: EndlessMortarMayhemParams) -> facts.Facts:
        """Return the commands from the current one to the end of the sequence, up to ten, and the target tile."""
        places = state.num_checks + jnp.arange(_SHOWN_COMMANDS)
        ahead = jax.vmap(lambda place: command_at(state.level, place, params))(places)
        return {
            "commands": facts.Fact(jnp.where(places < state.sequence_length, ahead, -1), NUM_COMMANDS, COMMANDS),
            **facts.tile(state.target_tile, seen.LARGEST_ARENA, seen.LARGEST_ARENA, "target"),
        }

    def visible(self, scene: seen.Scene) -> Visible:
        """Return the facts that the frame of a scene shows."""
        return visible_in(scene, self.agent_scale, math.ceil(self.rim_px))

    def observe_scene(self, scene: seen.Scene) -> jax.Array:
        """Return the frame or the symbols."""
        if self.observation == "symbolic":
            return symbols(self.visible(scene))
        return seen.draw_torus(scene, self.agent_scale)


def command_at(level: EndlessMortarMayhemLevel, index: jax.Array, params: EndlessMortarMayhemParams) -> jax.Array:
    """Return command number `index` of an episode, listed in the level or drawn from its seed."""
    given = jnp.where(index < level.commands.shape[0], select(level.commands, index), -1)
    bits = jax.random.bits(jax.random.fold_in(levels.level_key(level.seed), index), (), jnp.uint32)
    drawn = (bits % jnp.asarray(params.allowed_commands).astype(jnp.uint32)).astype(jnp.int32)
    return jnp.where(given >= 0, given, drawn)


def next_target(tile: jax.Array, command: jax.Array) -> jax.Array:
    """Return the tile after a command on the torus, int32 (2,)."""
    return (tile + jnp.asarray(COMMAND_MOVES)[command]) % seen.LARGEST_ARENA


def is_clue_seen(state: EndlessMortarMayhemState) -> jax.Array:
    """Return whether the frame of `state` is a clue frame, blanks included."""
    return (state.clue_frame >= 0) & (state.clue_frame < state.clue_frames)


def clue_at(state: EndlessMortarMayhemState, params: EndlessMortarMayhemParams) -> jax.Array:
    """Return the command of a clue frame, or `NO_COMMAND` for a blank."""
    level = state.level
    period = jnp.maximum(level.command_show_duration + level.command_show_delay, 1)
    is_shown = state.clue_frame % period < level.command_show_duration
    index = state.clue_first + jnp.maximum(state.clue_frame, 0) // period
    return jnp.where(is_shown, command_at(level, index, params), NO_COMMAND)


def act(
    state: EndlessMortarMayhemState, params: EndlessMortarMayhemParams
) -> tuple[EndlessMortarMayhemState, jax.Array, jax.Array]:
    """Apply check and explosion after a move; return state, reward and whether the episode ended.

    After the check of the last command, one more command is shown.
    """
    on_target = jnp.all(seen.tile_at(state.position_px, jnp.int32(seen.LARGEST_ARENA)) == state.target_tile)
    checked, is_due, reward = mortar_mayhem.check(state, on_target, params)
    level, length = state.level, state.sequence_length
    grows = is_due & (checked.num_checks == length)
    grown = dataclasses.replace(
        checked,
        num_checks=jnp.where(grows, 0, checked.num_checks),
        sequence_length=length + grows.astype(jnp.int32),
        commands_completed=state.commands_completed + (is_due & on_target).astype(jnp.int32),
        clue_first=jnp.where(grows, length, state.clue_first),
        clue_frames=jnp.where(grows, level.command_show_duration + level.command_show_delay, state.clue_frames),
        clue_frame=jnp.where(grows, -1, state.clue_frames),
    )
    exploded, is_over = mortar_mayhem.explode(grown)
    target = next_target(state.target_tile, command_at(level, grown.num_checks, params))
    after = dataclasses.replace(exploded, target_tile=jnp.where(is_over, target, state.target_tile))
    has_left = after.tiles_on & ~on_target
    reward = jnp.where(has_left, params.reward_command_failure, reward)
    return after, jnp.asarray(reward, dtype=jnp.float32), (is_due & ~on_target) | has_left
