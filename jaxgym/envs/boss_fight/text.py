"""Text interface of BossFight: a list of all things with their places."""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.boss_fight.attacks import SPEEDS
from jaxgym.envs.boss_fight.collisions import ROUND_REWARD, WIN_REWARD
from jaxgym.envs.boss_fight.game import FIRE, LEG_STEPS, STAY, STEPS_BETWEEN_SHOTS
from jaxgym.envs.boss_fight.level import MOST_HEALTH, MOST_ROUNDS, WORLD
from jaxgym.envs.boss_fight.scene import Scene
from jaxgym.envs.boss_fight.state import HURT_STEPS
from jaxgym.envs.boss_fight.things import HALF_SIZES, BulletKind
from jaxgym.envs.common.text import FrameTextInterface, number
from jaxgym.text.actions import ActionSet

MOVES = {
    "wait": STAY,
    "left": 1,
    "right": 7,
    "up": 5,
    "down": 3,
    "up-left": 2,
    "up-right": 8,
    "down-left": 0,
    "down-right": 6,
    "fire": FIRE,
}
_KINDS = {BulletKind.BULLET: "Bullet", BulletKind.SHOT: "Your shot", BulletKind.REFLECTED: "Reflected shot"}
_FIRE_AT = (
    "Your shot flies up by 1 per step. A shot that touches the boss while its shield is open is a hit. A shot that "
    "touches the closed shield bounces off and can hit nothing any more."
)


@functools.cache
def _actions(most: int) -> ActionSet:
    return ActionSet(MOVES, {}, most, "left")


@dataclasses.dataclass(frozen=True)
class BossFightTextInterface(FrameTextInterface[Scene]):
    """Text interface of BossFight."""

    text_version: ClassVar[int] = 2

    def reply_of(self, action: Any) -> str:
        """Return the name of an action in its tag; actions above 9 have no effect, as `wait`."""
        return super().reply_of(action if action <= FIRE else STAY)

    def rules(self, params: Any) -> str:
        """Return the goal, the rules, the rewards and the end of the episode."""
        speed = number(SPEEDS[self.env.distribution_mode])
        return (
            f"You fly a ship in a world of {WORLD} x {WORLD} units and fight a boss. The boss flies in straight legs "
            f"of {LEG_STEPS + 1} steps to random places in the upper part. At first, its shield is closed. After some "
            f"legs, the shield opens and stays open. {_FIRE_AT}\n"
            f"A round takes 1 to {MOST_HEALTH} hits, and the fight has 1 to {MOST_ROUNDS} rounds; both numbers are "
            "hidden, and the number of hits is the same in all rounds. After a won round, the shield closes, and the "
            f"boss does not attack for {HURT_STEPS} steps. While its shield is closed, the boss fires many bullets in "
            "a pattern of the round; while it is open, it fires single bullets. Bullets fly straight, with a speed of "
            f"{speed} per step. Meteors stop bullets and shots, and never move.\n\n"
            f"Reward: {number(ROUND_REWARD)} for each won round, and {number(WIN_REWARD)} more for the last one.\n"
            "The episode ends when you win the last round, or when your ship touches a bullet of the boss, the boss or "
            "a meteor."
        )

    def legend(self, params: Any) -> str:
        """Return the explanation of the observation texts."""
        bullet, shot = (number(2 * HALF_SIZES[kind]) for kind in (BulletKind.BULLET, BulletKind.SHOT))
        return (
            "Observation: You see the center and the size of each thing, which is a rectangle. Two things touch when "
            "their rectangles overlap. x grows to the right, y up; the lower left corner of the world is x 0, y 0. "
            f"Bullets are {bullet} wide and high, shots {shot}. Velocities are in units per step."
        )

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        return (
            "A direction accelerates the ship, up to 0.7 per step in each direction. Without acceleration, the ship "
            f"loses about half of its speed in each step. The ship can fire every {STEPS_BETWEEN_SHOTS} steps."
        )

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the image."""
        return (
            "Each observation has an image of the world. Your ship is a triangle. The boss is a large disc with a dark "
            "center. A light blue ring around it is the closed shield. Meteors are small brown or gray discs. The "
            "boss's bullets are squares with trails, which show where they come from. Your shots are smaller squares "
            "without trails. Yellow and orange squares are blasts, which do nothing."
        )

    def describe_visible(self, seen: Any) -> list[str]:
        """Return places, sizes and velocities."""
        columns = [
            np.asarray(part).tolist()
            for part in (seen.ship, seen.boss, seen.has_shield, seen.meteors, seen.bullets.next_slot)
        ]
        return [
            "\n".join(
                [
                    f"You: {_box(ship)}.",
                    f"Boss: {_box(boss)}. Shield: {'closed' if has_shield else 'open'}.",
                    *(f"Meteor: {_box(meteor)}." for meteor in meteors if meteor[2]),
                    *_bullets(seen.bullets, row, next_slot),
                ]
            )
            for row, (ship, boss, has_shield, meteors, next_slot) in enumerate(zip(*columns, strict=True))
        ]


def _box(box: list[float]) -> str:
    x, y, half_width, half_height = box
    return f"x {x:.1f}, y {y:.1f}, {2 * half_width:.1f} wide, {2 * half_height:.1f} high"


def _bullets(bullets: Any, row: int, next_slot: int) -> list[str]:
    """Return a line for each bullet of a scene, the oldest first."""
    kinds = np.roll(np.asarray(bullets.kind)[row], -next_slot)
    numbers = np.stack([np.asarray(part)[row] for part in (bullets.x, bullets.y, bullets.vx, bullets.vy)], axis=1)
    numbers = np.roll(numbers, -next_slot, axis=0)
    return [
        f"{_KINDS[BulletKind(kind)]}: x {x:.1f}, y {y:.1f}, velocity {_signed(vx)} in x, {_signed(vy)} in y."
        for kind, (x, y, vx, vy) in zip(kinds.tolist(), numbers.tolist(), strict=True)
        if kind != BulletKind.NONE
    ]


def _signed(value: float) -> str:
    return f"{round(value, 2) + 0.0:g}"


TEXT = BossFightTextInterface.spec(4, lambda _, most: _actions(most))
