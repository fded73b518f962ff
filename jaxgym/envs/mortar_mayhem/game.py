"""Mortar Mayhem: memorize a sequence of commands, then execute it tile by tile.

In the clue phase, commands are shown one glyph at a time, and the agent cannot move. Then the agent has a number of
steps to reach the target tile of each command, relative to the previous target. After these steps, all other tiles turn
deadly for some steps, and the agent must stay on its tile. The act-only games (B) give all commands as a vector instead
of the clue phase; in the grid games, the agent turns and moves by tiles.

Source: Pleines et al., Memory Gym (ICLR 2023; JMLR 26(6), 2025), package memory-gym 1.0.2. Rules and frames are
reproduced exactly, including these peculiarities:

- Failing the check of the last command counts as a success; its reward is that of a failure.
- Leaving the tile after a passed check makes that command count as not completed, although it was rewarded.
- A failure replaces the whole reward of its step, including a success bonus.
- Diagonal glyphs are not centered.

Differences: the original has no time limit; `max_steps` truncates. A clue phase of no frames raises an error in the
original and is skipped here. Frames are row first; the original's are column first.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
from flax import struct

from jaxgym import facts
from jaxgym.environment import Environment, EnvParams, EnvState, Transition, starts_at
from jaxgym.envs.memory_gym import arena
from jaxgym.envs.mortar_mayhem import scene as seen
from jaxgym.envs.mortar_mayhem.commands import (
    COMMANDS,
    NO_COMMAND,
    NUM_COMMANDS,
    VECTOR_COMMANDS,
    command_code,
    move_of,
    sample_commands,
    select,
)
from jaxgym.envs.mortar_mayhem.visible import Visible, symbols, visible_in
from jaxgym.errors import OptionError
from jaxgym.options import OBSERVATION, Choices, Flag, Integer, IntegerList, Real, Static, static, traced
from jaxgym.spaces import Box, Dict, Discrete, MultiDiscrete, frames_or_symbols

# Within these bounds, int32 can count the frames of a clue phase.
MOST_COMMANDS, MOST_STEPS = 1_000, 1_000_000
DURATIONS = ("command_show_duration", "command_show_delay", "explosion_duration", "explosion_delay")
"""Options and fields of a level that are durations, in the order in which they are drawn."""
_DEFAULT_MAX_COMMANDS = 10
OFFSETS_PX = (-2, 1)
"""Smallest and largest offset of the agent from the center of its start tile, along each axis."""


@struct.dataclass
class Level:
    """Sampled parts of an episode.

    Attributes:
        start_tile: Column and row, int32 (2,).
        start_offset_px: Offset from the center of the start tile, int32 (2,); 0 except in `MortarMayhemB-v0`.
        command_count: Number of commands, int32 ().
        commands: Command indices, int32 (max_commands,); -1 from `command_count` on.
        command_show_duration: Number of frames of each glyph, int32 ().
        command_show_delay: Number of blank frames after each glyph, int32 ().
        explosion_duration: Number of steps during which tiles are deadly, int32 ().
        explosion_delay: Number of steps to reach a target, int32 ().
    """

    start_tile: jax.Array
    start_offset_px: jax.Array
    command_count: jax.Array
    commands: jax.Array
    command_show_duration: jax.Array
    command_show_delay: jax.Array
    explosion_duration: jax.Array
    explosion_delay: jax.Array


@struct.dataclass(kw_only=True)
class State(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        position_px: Center of the agent, int32 (2,).
        heading: Heading in eighths of a turn, counter-clockwise from up, int32 ().
        target_tile: Target of the current command, int32 (2,).
        num_checks: Number of checks so far, int32 ().
        command_steps: Steps since the current command became valid, int32 ().
        verify_step: Steps since tiles turned deadly, int32 ().
        tiles_on: Whether tiles are deadly, bool ().
        success: Whether the last command was checked, bool ().
    """

    position_px: jax.Array
    heading: jax.Array
    target_tile: jax.Array
    num_checks: jax.Array = starts_at(0)
    command_steps: jax.Array = starts_at(0)
    verify_step: jax.Array = starts_at(0)
    tiles_on: jax.Array = starts_at(False)
    success: jax.Array = starts_at(False)


AnyState = TypeVar("AnyState", bound=State)


@struct.dataclass
class CommandParams(EnvParams):
    """Traced options that the endless game has as well."""

    agent_speed: jax.Array = traced(arena.AGENT_SPEED)
    allowed_commands: jax.Array = traced(
        Integer(
            9,
            "number n of commands that can occur: the first n of right, down, left, up, stay, and the four diagonals",
            low=4,
            high=9,
        )
    )
    command_show_duration: Choices = traced(IntegerList([3], "frames for which each command is shown", high=MOST_STEPS))
    command_show_delay: Choices = traced(IntegerList([1], "blank frames after each command", high=MOST_STEPS))
    explosion_duration: Choices = traced(
        IntegerList([6], "observations per command in which the other tiles are deadly", 1, MOST_STEPS)
    )
    explosion_delay: Choices = traced(
        IntegerList([18], "one less than the number of steps to reach the target tile", 1, MOST_STEPS)
    )
    visual_feedback: jax.Array = traced(Flag(True, "paint deadly tiles red"))
    reward_command_failure: jax.Array = traced(Real(0.0, "reward of a failed command"))
    reward_command_success: jax.Array = traced(Real(0.1, "reward of a completed command"))


@struct.dataclass
class Params(CommandParams):
    """The traced options."""

    arena_size: jax.Array = traced(
        Integer(5, "number of tiles along each side of the arena", low=seen.SMALLEST_ARENA, high=seen.LARGEST_ARENA)
    )
    command_count: Choices = traced(IntegerList([10], "number of commands", 1, MOST_COMMANDS))
    reward_episode_success: jax.Array = traced(Real(0.0, "additional reward of the last command"))


@dataclasses.dataclass(unsafe_hash=True)
class MortarMayhem(Environment[Level, State, Params, seen.Scene]):
    """Mortar Mayhem with free or grid movement, with a clue phase or act-only.

    Observation:
        uint8 (84, 84, 3): row, column, channel; the act-only games give a dict of that as `visual_observation` and the
        commands as `vector_observation`, float32 (180,): a one-hot code of nine for each of 20 slots, in the order
        stay, right, left, up, down, right-down, right-up, left-down, left-up. With `observation="symbolic"`, a
        float32 vector instead of either (see `jaxgym.envs.mortar_mayhem.visible.symbols`).
    Action:
        Free: horizontal (0 stay, 1 left, 2 right) and vertical (0 stay, 1 up, 2 down), or with `flat_actions` one
        number 3 · horizontal + vertical. Grid: 0 nothing, 1 turn left, 2 turn right, 3 forward. Ignored while
        commands are shown.
    Start:
        On a random tile, heading up.
    Reward:
        `reward_command_success` for each passed check, `reward_command_failure` for a failed one, and for leaving the
        target while the others are deadly.
    End:
        Terminated when a check fails, when the agent leaves the tile while the others are deadly, or at the check of
        the last command. Truncated after `max_steps`, if it is set.
    Info:
        `reward` and `length` so far, `success` (0 or 1), `commands_completed` (completed share of the commands).
    Versions:
        v0: as memory-gym 1.0.2.
    """

    metric: ClassVar[str] = "commands_completed"
    grid: bool
    act_only: bool
    agent_scale: float = static(arena.AGENT_SCALE, help="size of the agent; no effect with movement on a grid")
    max_commands: int = static(
        Static(
            None,
            "size of the command arrays; at least the largest command_count that you use with this env",
            low=1,
            high=MOST_COMMANDS,
            none=f"the larger of {_DEFAULT_MAX_COMMANDS} and max(command_count)",
        )
    )
    observation: str = static(OBSERVATION)
    flat_actions: bool = static(arena.FLAT_ACTIONS)

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `max_commands`, and the size of the agent in the grid games.

        Raises:
            OptionError: If `command_count` holds more commands than `max_commands`.
        """
        counts, max_commands = values["command_count"], values["max_commands"]
        longest = max(counts)
        if max_commands is None:
            max_commands = max(longest, _DEFAULT_MAX_COMMANDS)
        if longest > max_commands:
            raise OptionError(
                f"{env_id}: command_count: expected counts up to max_commands={max_commands}, got {counts}. "
                f"Set max_commands={longest}."
            )
        scale = arena.AGENT_SCALE.default if values["grid"] else values["agent_scale"]
        return {"max_commands": max_commands, "agent_scale": scale}

    def action_space(self, params: Params | None = None) -> Discrete | MultiDiscrete:
        """Return the space of four actions in the grid games, else of three times three."""
        if self.grid:
            return Discrete(len(arena.GridAction))
        return arena.free_space(flat=self.flat_actions)

    def observation_space(self, params: Params | None = None) -> Box | Dict:
        """Return the space of the observation in the class docstring."""
        space = frames_or_symbols(self, params)
        if not self.act_only or self.observation == "symbolic":
            return space
        shape = (VECTOR_COMMANDS * NUM_COMMANDS,)
        vector = Box(low=0.0, high=1.0, shape=shape, dtype=jnp.float32)
        return Dict({"visual_observation": space, "vector_observation": vector})

    def sample_level(self, key: jax.Array, params: Params) -> Level:
        """Sample the start, then the commands from there, then the durations."""
        has_offset = self.act_only and not self.grid
        names = ("tile", "x", "y", "count", *DURATIONS)
        bits = jax.random.bits(key, (len(names) + self.max_commands,), jnp.uint32)
        drawn = dict(zip(names, bits, strict=False))
        arena_size = jnp.asarray(params.arena_size, dtype=jnp.int32)
        start = (drawn["tile"] % (arena_size * arena_size).astype(jnp.uint32)).astype(jnp.int32)
        start_tile = jnp.stack([start // arena_size, start % arena_size])
        offset = jnp.stack([drawn["x"], drawn["y"]])
        count = params.command_count.pick(drawn["count"])
        commands = sample_commands(bits[len(names) :], start_tile, arena_size, params.allowed_commands)
        return Level(
            start_tile=start_tile,
            start_offset_px=start_offset_px(offset) if has_offset else jnp.zeros_like(start_tile),
            command_count=count,
            commands=jnp.where(jnp.arange(self.max_commands) < count, commands, -1),
            **{name: getattr(params, name).pick(drawn[name]) for name in DURATIONS},
        )

    def initial_state(self, level: Level, params: Params) -> State:
        """Place the agent on the start tile, heading up; the first command gives the first target."""
        return State(
            level=level,
            position_px=seen.tile_center_px(level.start_tile, params.arena_size) + level.start_offset_px,
            heading=jnp.int32(arena.Heading.UP),
            target_tile=level.start_tile + move_of(level.commands, jnp.int32(0)),
        )

    def normalized_return(self, info: Mapping[str, jax.Array], state: State, params: Params) -> jax.Array:
        """Return the return divided by the largest return of the level; if no reward is possible, the success."""
        count = state.level.command_count.astype(jnp.float32)
        largest = count * jnp.float32(params.reward_command_success) + jnp.float32(params.reward_episode_success)
        return jnp.where(largest > 0, info["episode_return"] / largest, info["success"].astype(jnp.float32))

    def transition(self, state: State, action: jax.Array, params: Params) -> Transition:
        """Show the next clue, or move the agent, check the command and advance the explosion."""
        acted, reward, terminated = act(self.move(state, action, params), params)
        is_clue = is_clue_phase(state)
        after = jax.tree.map(partial(jnp.where, is_clue), state, acted)
        terminated = terminated & ~is_clue
        completed = after.num_checks - terminated.astype(jnp.int32) + after.success.astype(jnp.int32)
        metrics = {
            "success": after.success.astype(jnp.int32),
            "commands_completed": completed.astype(jnp.float32) / state.level.command_count.astype(jnp.float32),
        }
        return Transition(after, jnp.where(is_clue, jnp.float32(0.0), reward), terminated, metrics)

    def move(self, state: State, action: jax.Array, params: Params) -> State:
        """Move the agent by tiles or freely, within the arena."""
        arena_size = params.arena_size
        if self.grid:
            heading = arena.turn(state.heading, action)
            tile = arena.step_forward(seen.tile_at(state.position_px, arena_size), heading, action, arena_size)
            position = seen.tile_center_px(tile, arena_size)
            return dataclasses.replace(state, heading=heading, position_px=position)
        direction = arena.direction_of(arena.free_action(action) if self.flat_actions else action)
        corner, radius = seen.arena_corner_px(arena_size), arena.agent_radius(self.agent_scale)
        position = arena.clamp_px(
            state.position_px + arena.free_displacement_px(direction, params.agent_speed),
            corner + radius,
            corner + seen.TILE_PX * arena_size - radius,
        )
        return dataclasses.replace(state, heading=arena.heading_of(direction, state.heading), position_px=position)

    def scene(self, state: State, params: Params) -> seen.Scene:
        """Return the scene: the arena, the agent, the shown command and the safe tile."""
        is_red = state.tiles_on & params.visual_feedback
        return seen.Scene(
            arena_size=jnp.asarray(params.arena_size, dtype=jnp.int32),
            agent_position_px=state.position_px,
            agent_heading=state.heading,
            command=jnp.where(is_clue_phase(state), clue_at(state), NO_COMMAND),
            safe_tile=jnp.where(is_red, state.target_tile, -1),
            commands=state.level.commands if self.act_only else None,
        )

    def hidden(self, state: State, params: Params) -> facts.Facts:
        """Return the commands, the index of the current one, and its target tile."""
        return {
            "commands": facts.Fact(state.level.commands, NUM_COMMANDS, COMMANDS),
            "current_command": facts.Fact(
                jnp.where(state.num_checks < state.level.command_count, state.num_checks, -1),
                self.max_commands,
                first=1,
            ),
            **facts.tile(state.target_tile, seen.LARGEST_ARENA, seen.LARGEST_ARENA, "target"),
        }

    def visible(self, scene: seen.Scene) -> Visible:
        """Return the facts that the frame of a scene shows."""
        return visible_in(scene, self.agent_scale)

    def observe_scene(self, scene: seen.Scene) -> Any:
        """Return the frame, with the command code in the act-only games, or the symbols."""
        if self.observation == "symbolic":
            return symbols(self.visible(scene))
        frame = seen.draw(scene, self.agent_scale)
        if self.act_only:
            return {"visual_observation": frame, "vector_observation": command_code(scene.commands)}
        return frame


def start_offset_px(bits: jax.Array) -> jax.Array:
    """Return the offset from the center of the start tile for random uint32 `bits` (2,), int32 (2,): -2 to 1 px."""
    low, high = OFFSETS_PX
    return (bits % jnp.uint32(high - low + 1)).astype(jnp.int32) + low


def is_clue_phase(state: State) -> jax.Array:
    """Return whether the frame at `state.time` is a clue frame, so that the agent cannot act."""
    level = state.level
    clue_frames = level.command_count * (level.command_show_duration + level.command_show_delay)
    return state.time < clue_frames


def clue_at(state: State) -> jax.Array:
    """Return the command shown at `state.time` in the clue phase, or `NO_COMMAND` for a blank."""
    level = state.level
    period = jnp.maximum(level.command_show_duration + level.command_show_delay, 1)
    is_shown = state.time % period < level.command_show_duration
    return jnp.where(is_shown, select(level.commands, state.time // period), NO_COMMAND)


def act(state: State, params: Params) -> tuple[State, jax.Array, jax.Array]:
    """Apply check and explosion after a move; return state, reward and whether the episode ended."""
    on_target = jnp.all(seen.tile_at(state.position_px, params.arena_size) == state.target_tile)
    checked, is_due, reward = check(state, on_target, params)
    level = state.level
    is_last = is_due & (checked.num_checks == level.command_count)
    reward += jnp.where(is_last, params.reward_episode_success, 0.0)
    exploded, is_over = explode(dataclasses.replace(checked, success=checked.success | is_last))
    target = state.target_tile + move_of(level.commands, checked.num_checks)
    has_next = checked.num_checks < level.command_count
    after = dataclasses.replace(exploded, target_tile=jnp.where(is_over & has_next, target, state.target_tile))
    has_left = after.tiles_on & ~on_target
    reward = jnp.where(has_left, params.reward_command_failure, reward)
    return after, jnp.asarray(reward, dtype=jnp.float32), is_last | (is_due & ~on_target) | has_left


def check(state: AnyState, on_target: jax.Array, params: CommandParams) -> tuple[AnyState, jax.Array, jax.Array]:
    """Check the command when its delay is over: the other tiles turn deadly.

    Return the state, whether the command was checked, and the reward of the check.
    """
    is_due = ~state.tiles_on & (state.command_steps > 0) & (state.command_steps % state.level.explosion_delay == 0)
    outcome = jnp.where(on_target, params.reward_command_success, params.reward_command_failure)
    checked = dataclasses.replace(
        state,
        num_checks=state.num_checks + is_due.astype(jnp.int32),
        command_steps=jnp.where(is_due, 1, state.command_steps),
        tiles_on=state.tiles_on | is_due,
    )
    return checked, is_due, jnp.where(is_due, outcome, 0.0)


def explode(state: AnyState) -> tuple[AnyState, jax.Array]:
    """Advance the explosion or the delay by one step; return the state and whether the tiles got safe again."""
    is_over = state.tiles_on & (state.verify_step > 0) & (state.verify_step % state.level.explosion_duration == 0)
    burns = state.tiles_on & ~is_over
    exploded = dataclasses.replace(
        state,
        command_steps=state.command_steps + (~state.tiles_on).astype(jnp.int32),
        verify_step=jnp.where(is_over, 0, state.verify_step + burns.astype(jnp.int32)),
        tiles_on=burns,
    )
    return exploded, is_over
