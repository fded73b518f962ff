"""Text interfaces of Mystery Path and Endless Mystery Path."""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.common.text import TScene, rewards
from jaxgym.envs.memory_gym.arena import SCREEN_PX
from jaxgym.envs.memory_gym.text import (
    FIGURE,
    GRID_STEPS,
    IMAGE,
    NUMBERING,
    MemoryGymTextInterface,
    free_speed,
    image_px,
    path_actions,
    screen,
    tile_name,
)
from jaxgym.envs.mystery_path import endless_scene as endless
from jaxgym.envs.mystery_path.endless_visible import EndlessMysteryPathVisible
from jaxgym.envs.mystery_path.path_search import SIZE
from jaxgym.envs.mystery_path.scene import TILE_PX, Scene
from jaxgym.envs.mystery_path.visible import Visible

_CROSS = "Red cross: on you"


@dataclasses.dataclass(frozen=True)
class _PathTextInterface(MemoryGymTextInterface[TScene]):
    """Rule of falling, which both games share."""

    def fall_rule(self, params: Any) -> str:
        """Return the rule of falling."""
        cross = " and see a red cross" if bool(params.visual_feedback) else ""
        several = ""
        if self.action_set.most > 1:
            several = (
                " The same holds within one reply: the action after a fall only puts you back, and the remaining "
                "actions continue from the start tile."
            )
        return (
            f"If you step on a tile that is not part of the path, you fall{cross}. Your next action, whatever it is, "
            f"only puts you back on the start tile.{several} The path stays the same during the episode, so remember "
            "it."
        )


@dataclasses.dataclass(frozen=True)
class MysteryPathTextInterface(_PathTextInterface[Scene]):
    """Text interface of Mystery Path."""

    text_version: ClassVar[int] = 3

    def rules(self, params: Any) -> str:
        """Return the goal, the rules, the rewards and the end of the episode."""
        lines = [
            f"Your task is to walk along an invisible path on a square of {SIZE} x {SIZE} tiles. The path leads from "
            "your start tile on one side to the goal tile on the opposite side. Consecutive tiles of the path share an "
            "edge. Tiles of the path that do not follow each other can also share an edge.",
            self.fall_rule(params),
            "",
            rewards(
                {
                    "for reaching the goal": params.reward_goal,
                    "for the first visit of each path tile between start and goal": params.reward_path_progress,
                    "for each fall": params.reward_fall_off,
                    "for each step": params.reward_step,
                }
            ),
            "The episode ends when you reach the goal.",
        ]
        return "\n".join(lines)

    def legend(self, params: Any) -> str:
        """Return the explanation of positions."""
        return f"Observation: {NUMBERING}" + ("" if self.env.grid else f"\n{screen(TILE_PX)}")

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        if self.env.grid:
            return f"{GRID_STEPS} You cannot fall off the edge of the square."
        return f"{free_speed(params)} The edge of the screen stops you. You cannot fall off it."

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the square, the agent and the ends of the path."""
        parts = [
            f"{IMAGE} It shows the square of {SIZE} x {SIZE} tiles from above. The ground is black, and the tiles have "
            f"no visible edges: each tile is 1/{SIZE} as wide and 1/{SIZE} as high as the image.",
            FIGURE,
        ]
        if bool(params.visual_feedback):
            parts.append("A red cross on you means that you have fallen.")
        if bool(params.show_origin):
            parts.append("The start tile is blue.")
        if bool(params.show_goal):
            parts.append("The goal tile is green.")
        if not self.env.grid:
            parts.append(f"{image_px()} Your tile is the one below your center.")
        return " ".join(parts)

    def ending(self, reward: float) -> str:
        """Return the text for reaching the goal, the only way to terminate."""
        return f"You have reached the goal. {super().ending(reward)}"

    def describe_visible(self, seen: Visible) -> list[str]:
        """Return the texts of the agent's position and heading, its cross, and the ends of the path that are shown."""
        tiles = [tile_name(row, column) for column, row in seen.agent_tile.tolist()]
        if not self.env.grid:
            tiles = [f"x {x}, y {y} ({tile})" for (x, y), tile in zip(seen.agent_px.tolist(), tiles, strict=True)]
        said = [
            f"You: {tile}{self.facing[heading]}{f'{chr(10)}{_CROSS}' if cross else ''}"
            for tile, heading, cross in zip(tiles, seen.agent_heading.tolist(), seen.has_cross.tolist(), strict=True)
        ]
        shown = zip(*seen.origin_tile.T.tolist(), *seen.goal_tile.T.tolist(), strict=True)
        return [f"{text}{_ends(*tiles)}" for text, tiles in zip(said, shown, strict=True)]


@functools.cache
def _ends(start_column: int, start_row: int, goal_column: int, goal_row: int) -> str:
    start = f"\nStart (blue): {tile_name(start_row, start_column)}" if start_row >= 0 else ""
    goal = f"\nGoal (green): {tile_name(goal_row, goal_column)}" if goal_row >= 0 else ""
    return f"{start}{goal}"


@dataclasses.dataclass(frozen=True)
class EndlessMysteryPathTextInterface(_PathTextInterface[endless.EndlessMysteryPathScene]):
    """Text interface of Endless Mystery Path."""

    text_version: ClassVar[int] = 3

    def rules(self, params: Any) -> str:
        """Return the goal, the rules, the rewards and the end of the episode."""
        past = (
            " You see only the tiles of the path that you have just walked on." if bool(params.show_past_path) else ""
        )
        lines = [
            "Your task is to follow an invisible path to the right, as far as possible. The path has no end. The world "
            f"has {endless.NUM_ROWS} rows of tiles. From each tile, the path continues to the right, up or down.",
            f"{self.fall_rule(params)}{past}",
            "",
            rewards(
                {
                    "for each path tile after the start that you reach for the first time": params.reward_path_progress,
                    "for each fall": params.reward_fall_off,
                    "for each step": params.reward_step,
                }
            ),
            "The episode ends in three cases: you fall in a column to the left of the rightmost column that you have "
            "reached; you fall a second time on the same tile; or you make "
            f"{int(params.stamina_level)} steps without reaching a new path tile. A path tile is new if you have not "
            "reached it since your last fall.",
        ]
        return "\n".join(lines)

    def legend(self, params: Any) -> str:
        """Return the explanation of positions."""
        lines = [
            "Observation: Rows are numbered from 1 at the top. Path tiles are listed by the x of their left edge and "
            "their row.",
            f"{screen(TILE_PX)} The screen moves along with you. You start at the left edge of your tile.",
        ]
        if bool(params.show_background):
            lines.append("The floor is drawn as ice, which moves left while you walk right.")
        if bool(params.show_stamina):
            lines.append(
                "Stamina bar: its red part grows with each step without a new path tile. The episode ends when all of "
                "it is red."
            )
        return "\n".join(lines)

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        return f"right, up and down move you {int(float(params.agent_speed))} px. wait does not move you."

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the path, the agent and the bar."""
        rows = endless.NUM_ROWS
        ground = (
            "blue ice with gray edges, which moves left while you walk right" if bool(params.show_background) else ""
        )
        parts = [
            f"{IMAGE} It shows the part of the world around you from above, and moves along with you: your distance "
            f"from its left edge stays the same. It has {rows} rows of tiles. Each tile is 1/{rows} as wide and "
            f"1/{rows} as high as the image. The ground is {ground or 'black, and its tiles have no visible edges'}.",
            FIGURE,
            "You start at the left edge of your tile.",
        ]
        if bool(params.show_past_path):
            parts.append("Visible path tiles are white with gray edges.")
        if bool(params.visual_feedback):
            parts.append("A red cross on you means that you have fallen.")
        if bool(params.show_stamina):
            parts.append(
                "The bar at the right edge is your stamina: its red part grows from the top with each step without a "
                "new path tile. The episode ends when all of it is red."
            )
        return " ".join([*parts, image_px()])

    def describe_visible(self, seen: EndlessMysteryPathVisible) -> list[str]:
        """Return the texts of the agent's position and heading, its cross, and the visible path, ice and stamina."""
        agents = zip(
            *(seen.has_agent.tolist(), seen.agent_px.tolist(), seen.agent_row.tolist(), seen.agent_heading.tolist()),
            strict=True,
        )
        who = [
            f"x {x}, y {y} ({f'row {row + 1}' if row >= 0 else 'on no row'}){self.facing[heading]}"
            if is_seen
            else "not visible"
            for is_seen, (x, y), row, heading in agents
        ]
        grounds = [f"\nIce: moved left by {moved} px" if moved >= 0 else "" for moved in seen.ice_px.tolist()]
        bars = [
            f"\nStamina bar: {red} of {SCREEN_PX} px are red" if is_shown else ""
            for is_shown, red in zip(seen.has_stamina.tolist(), seen.lost_stamina_px.tolist(), strict=True)
        ]
        paths, crosses = _paths(seen.tiles, seen.left_px), seen.has_cross.tolist()
        return [
            f"You: {you}{f'{chr(10)}{_CROSS}' if cross else ''}\n{path}{ground}{bar}"
            for you, cross, path, ground, bar in zip(who, crosses, paths, grounds, bars, strict=True)
        ]


def _paths(tiles: Any, left_px: Any) -> list[str]:
    """Return the texts of path tiles, bool (B, 9, 7), by the left edges of their columns, int32 (B, 9)."""
    parts = [list[str]() for _ in tiles]
    for session, column in zip(*np.nonzero(tiles.any(axis=2)), strict=True):
        rows = ", ".join(str(row + 1) for row in np.flatnonzero(tiles[session, column]))
        parts[session].append(f"x {left_px[session, column]}: row {rows}")
    return [f"Visible path tiles: {'; '.join(part) or 'none'}" for part in parts]


FREE_TEXT, GRID_TEXT = MysteryPathTextInterface.spec(8), MysteryPathTextInterface.spec(1)
ENDLESS_TEXT = EndlessMysteryPathTextInterface.spec(8, lambda _, most: path_actions(most))
