"""BabyAI as AgentGym's server `agentenv-babyai` plays it: texts, offered actions and high-level actions.

    task = task_of(0)                       # level 1 of AgentGym with seed 0
    episode = begin(task)                   # episode.goal is "Your goal: go to the red ball"
    play([episode], ["go to red ball 1"])   # updates episode.observation, .reward, .score and .has_ended

A high-level action is a plan of BabyAI's actions. The path search reads only what the agent sees. A plan stops early
after a step that leaves the observed image unchanged.

Source: AgentGym, repository of 2026-05-30, with levels of minigrid 3.2.0. These peculiarities are the original's:

- The goal replaces "then" and "after you" by "and", but the order still counts.
- A plan continues after success. The reward is that of its last step.
- There is no time limit. The reward of success becomes negative after the time limit of the level.
- A success with a reward of at most 0.5, or the failure of a strict clause, is announced as the end, but play goes on.
- An invalid action repeats the last reward, which also counts for the score again.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.babyai import verifier
from jaxgym.envs.babyai.game import with_object_in_hand
from jaxgym.envs.babyai.mission import Mission, MissionVerb, num_units, text_of
from jaxgym.envs.babyai.original import draw_level
from jaxgym.envs.babyai.sight import Sight, sight_of
from jaxgym.envs.babyai.table import LEVELS
from jaxgym.envs.common.draws import Draws, Stream
from jaxgym.envs.minigrid.view import visible_in
from jaxgym.envs.minigrid.world import EMPTY, WALL, GridWorld, act, appearance_of
from jaxgym.rows import Rows

LEVEL_NAMES = (
    *("GoToRedBallGrey-v0", "GoToRedBall-v0", "GoToRedBallNoDists-v0", "GoToObjS4-v0", "GoToLocalS8N7-v0"),
    *("GoToObjMazeS7-v0", "GoToImpUnlock-v0", "GoToSeqS5R2-v0", "GoToRedBlueBall-v0", "GoToDoor-v0"),
    *("GoToObjDoor-v0", "Open-v0", "OpenRedDoor-v0", "OpenDoorLoc-v0", "OpenRedBlueDoorsDebug-v0"),
    *("OpenDoorsOrderN4Debug-v0", "Pickup-v0", "UnblockPickup-v0", "PickupLoc-v0", "PickupDistDebug-v0"),
    *("PickupAbove-v0", "PutNextLocalS6N4-v0", "PutNextS7N4Carrying-v0", "Unlock-v0", "UnlockLocalDist-v0"),
    *("KeyInBox-v0", "UnlockPickupDist-v0", "BlockedUnlockPickup-v0", "UnlockToUnlock-v0", "ActionObjDoor-v0"),
    *("FindObjS7-v0", "KeyCorridorS6R3-v0", "OneRoomS20-v0", "MoveTwoAcrossS8N9-v0", "SynthS5R2-v0"),
    *("SynthLoc-v0", "SynthSeq-v0", "MiniBossLevel-v0", "BossLevel-v0", "BossLevelNoUnlock-v0"),
)
"""AgentGym's levels in order. Level 4 is `GoToObjS6-v0` in AgentGym, whose rooms have the size 4 in old minigrid."""

NUM_TASKS = len(LEVEL_NAMES) << 32
"""Number of tasks: task `data_idx` is level `data_idx % 40` with seed `data_idx // 40`."""

_SIDE = 22
"""Side of the grids to which levels are padded with walls, so that one program plays all of them."""

_MOST_STEPS = 258
"""Most steps of a plan: the poses of the search rectangle, and the two actions at a door."""

_SIZES = (8, 64)
_MOVING = ("world", "progress", "time", "image", "is_success", "is_over")
_MOST_FINAL = 0.5
_COMPLETED = "\n The task is completed."


class Assignment(NamedTuple):
    """Level of a task.

    Attributes:
        level: The level, padded with walls.
        shape: Columns and rows of the level.
        limit: The time limit of the level in steps, which scales the reward.
        num_strict: Number of strict clauses.
        starts_carrying: Whether the agent starts with an object in its hand.
    """

    level: Any
    shape: tuple[int, int]
    limit: int
    num_strict: int
    starts_carrying: bool


@struct.dataclass
class AgentGymState:
    """State of an episode.

    Attributes:
        world: The grid and the agent.
        progress: The progress of the mission.
        mission: The mission.
        content: What a box contains, uint16 ().
        num_strict: Number of strict clauses, int32 ().
        time: Number of steps, int32 ().
        image: The things that the agent saw in the last observation, uint16 (7, 7), see `view.Visible`.
        is_success: Whether the last step fulfilled the mission, bool ().
        is_over: Whether the last step fulfilled or failed the mission, bool ().
    """

    world: GridWorld
    progress: verifier.Progress
    mission: Mission
    content: jax.Array
    num_strict: jax.Array
    time: jax.Array
    image: jax.Array
    is_success: jax.Array
    is_over: jax.Array


@dataclasses.dataclass(eq=False, slots=True)
class AgentGymEpisode:
    """Episode of a task.

    Attributes:
        task: The task.
        row: The `AgentGymState` as a row of bytes.
        goal: The goal and a line break, which precede the first observation text.
        sight: The last observation and the offered actions.
        observation: The last observation text, without the goal.
        reward: The reward of the last plan.
        score: The sum of the rewards after each action.
        has_ended: Whether the episode has ended; it takes no more actions.
        number: Number of actions so far.
    """

    task: Assignment
    row: np.ndarray
    goal: str
    sight: Sight
    observation: str = ""
    reward: float = 0
    score: float = 0
    has_ended: bool = False
    number: int = 0

    @property
    def state(self) -> AgentGymState:
        """The state, with NumPy leaves."""
        return jax.tree.map(lambda leaf: leaf[0], _layout().view(self.row[None]))


@functools.lru_cache(maxsize=1024)
def task_of(data_idx: int) -> Assignment:
    """Return a task; `data_idx` is an integer from 0 to `NUM_TASKS` - 1."""
    seed, index = divmod(data_idx, len(LEVEL_NAMES))
    level_class = LEVELS[LEVEL_NAMES[index]]
    level, _ = draw_level(level_class, Stream(Draws.of([seed], 256), 0))
    units = int(num_units(level.mission.verbs)) if level_class.is_per_unit else 1
    width, height = level.cells.shape
    cells = np.pad(level.cells, ((0, _SIDE - width), (0, _SIDE - height)), constant_values=WALL)
    padded = dataclasses.replace(level, cells=cells)
    limit = level_class.steps * units
    return Assignment(padded, (width, height), limit, level_class.num_strict, level_class.starts_carrying)


def begin(task: Assignment) -> AgentGymEpisode:
    """Return a new episode."""
    row = np.asarray(_begin(task.level, np.int32(task.num_strict), np.bool_(task.starts_carrying)))[0]
    goal = text_of(task.level.mission.tokens).replace("then", "and").replace("after you", "and")
    episode = AgentGymEpisode(task, row, f"Your goal: {goal}\n", _sights(row[None])[0])
    episode.observation = episode.sight.text + episode.sight.offers
    return episode


def play(episodes: Sequence[AgentGymEpisode], actions: Sequence[str]) -> None:
    """Do one action in each of several different episodes, none of which has ended."""
    plans, playing = list[Sequence[int]](), list[AgentGymEpisode]()
    for episode, action in zip(episodes, actions, strict=True):
        episode.number += 1
        plan = episode.sight.plan_of(action)
        if isinstance(plan, str):
            episode.observation = plan + episode.sight.offers
            episode.score += episode.reward
        else:
            plans.append(plan)
            playing.append(episode)
    for first in range(0, len(plans), _SIZES[-1]):
        part = slice(first, first + _SIZES[-1])
        _execute(playing[part], plans[part])


def world_of(episode: AgentGymEpisode) -> GridWorld:
    """Return the world of an episode without padding."""
    world, (width, height) = episode.state.world, episode.task.shape
    return dataclasses.replace(world, cells=world.cells[:width, :height])


def prepare() -> None:
    """Compile the programs."""
    episode = begin(task_of(0))
    for size in _SIZES:
        _execute([dataclasses.replace(episode) for _ in range(size)], [[0]] * size)


def _execute(episodes: Sequence[AgentGymEpisode], plans: Sequence[Sequence[int]]) -> None:
    count = len(episodes)
    size = next(size for size in _SIZES if size >= count)
    rows = np.stack([episode.row for episode in episodes] + [episodes[0].row] * (size - count))
    steps, lengths = np.zeros((size, _MOST_STEPS), np.uint8), np.zeros(size, np.int32)
    for index, plan in enumerate(plans):
        steps[index, : len(plan)] = plan
        lengths[index] = len(plan)
    rows = np.asarray(_execute_rows(rows, steps, lengths))[:count]
    played: AgentGymState = _layout().view(rows)
    ends = zip(played.time.tolist(), played.is_success.tolist(), played.is_over.tolist(), strict=True)
    columns = zip(episodes, rows, _sights(rows), ends, strict=True)
    for episode, row, sight, (time, is_success, is_over) in columns:
        episode.row, episode.sight = row, sight
        episode.reward = 1 - 0.9 * (time / episode.task.limit) if is_success else 0
        episode.score += episode.reward
        episode.has_ended = is_over and episode.reward > _MOST_FINAL
        episode.observation = sight.text + (_COMPLETED if is_over else "") + sight.offers


def _sights(rows: np.ndarray) -> list[Sight]:
    """Return what the agents of B rows see."""
    played: AgentGymState = _layout().view(rows)
    held = appearance_of(np.asarray(played.world.carrying)).tolist()
    images, directions = np.asarray(played.image), np.asarray(played.world.direction).tolist()
    return [
        sight_of(image.tobytes(), direction, carried)
        for image, direction, carried in zip(images, directions, held, strict=True)
    ]


# Programs.


@functools.cache
def _layout() -> Rows:
    task = task_of(0)
    return Rows(jax.eval_shape(_first, task.level, np.int32(0), np.bool_(False)))


def _first(level: Any, num_strict: Any, starts_carrying: Any) -> AgentGymState:
    """Return the state at the start."""
    floor = GridWorld(level.cells, level.position, level.direction, jnp.uint16(EMPTY))
    held = with_object_in_hand(floor, level.mission)
    return AgentGymState(
        world=jax.tree.map(lambda yes, no: jnp.where(starts_carrying, yes, no), held, floor),
        progress=verifier.first_progress(level.cells, level.mission),
        mission=level.mission,
        content=level.content,
        num_strict=num_strict,
        time=jnp.int32(0),
        # The first observation still shows a carried object on the floor.
        image=visible_in(floor).cells.astype(jnp.uint16),
        is_success=jnp.bool_(False),
        is_over=jnp.bool_(False),
    )


@jax.jit
def _begin(level: Any, num_strict: Any, starts_carrying: Any) -> jax.Array:
    return _layout().pack(jax.tree.map(lambda leaf: leaf[None], _first(level, num_strict, starts_carrying)))


@jax.jit
def _execute_rows(rows: jax.Array, plans: jax.Array, lengths: jax.Array) -> jax.Array:
    return _layout().pack(jax.vmap(_executed)(_layout().unpack(rows), plans, lengths))


def _executed(state: AgentGymState, plan: jax.Array, length: jax.Array) -> AgentGymState:
    """Return the state after a plan, or after its first step that leaves the image unchanged."""

    def goes_on(carry: tuple[jax.Array, jax.Array, Any]) -> jax.Array:
        made, is_changed, _ = carry
        return (made < length) & is_changed

    def step(carry: tuple[jax.Array, jax.Array, Any]) -> tuple[jax.Array, jax.Array, Any]:
        made, _, moving = carry
        before = dataclasses.replace(state, **moving)
        after = _step(before, plan[made].astype(jnp.int32))
        return made + 1, jnp.any(after.image != before.image), {name: getattr(after, name) for name in moving}

    # A carry holds only what changes: a batched loop selects between the old and the new value of all that it holds.
    moving = {name: getattr(state, name) for name in _MOVING}
    moving = jax.lax.while_loop(goes_on, step, (jnp.int32(0), jnp.bool_(True), moving))[2]
    return dataclasses.replace(state, **moving)


def _step(state: AgentGymState, action: jax.Array) -> AgentGymState:
    world = act(state.world, action, state.content[None])
    progress, is_success, is_failure = verifier.check(state.mission, state.progress, world, action, state.num_strict)
    return dataclasses.replace(
        state,
        world=world,
        progress=_open_again(state.mission, progress),
        time=state.time + 1,
        image=visible_in(world).cells.astype(jnp.uint16),
        is_success=is_success,
        is_over=is_success | is_failure,
    )


def _open_again(mission: Mission, progress: verifier.Progress) -> verifier.Progress:
    """Return the progress with which play goes on after success.

    In the original, an "and" keeps its fulfilled parts, so it stays fulfilled. A last phrase of one clause keeps
    nothing: it is checked again in each step.
    """
    verbs = mission.verbs.astype(jnp.int32)
    last = jnp.where(verbs[2] == MissionVerb.NONE, 0, 2)
    is_one = verbs[last + 1] == MissionVerb.NONE
    is_opened = is_one & (np.arange(len(mission.verbs)) == last)
    return dataclasses.replace(progress, is_over=progress.is_over & ~is_opened)
