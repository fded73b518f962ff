"""Scene of TextCraft, its frame and its symbols: the goal, the shown recipes, the bag and the last outcome.

The frame has, from top to bottom: the goal in a golden box, the item of the last action, and a bar whose color is the
outcome; then the bag, up to 24 items in the order of their numbers, with their amounts; then the book, one mark per
recipe, in the color of its output if the recipe is shown.
"""

import enum
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym.envs.textcraft.icons import BACKGROUND, ICON_PX, colors, icons
from jaxgym.envs.textcraft.world import NONE, world
from jaxgym.rendering.sprites import bitmap

SCREEN_PX = 84
MOST_CARRIED = 999
"""Largest amount of an item in the bag; the frame has three digits."""

SLOT_PX = 14
BAG_ROWS, BAG_COLUMNS = 4, 6
NUM_SLOTS = BAG_ROWS * BAG_COLUMNS
"""Number of items in the frame's bag."""

MARK_ROWS = 4
_MARK_HEIGHT_PX = 3
_INNER = slice(1, -1)
_ICON_X_PX = (SLOT_PX - ICON_PX) // 2
_DIGIT_WIDTH_PX, _DIGITS_Y_PX, _DIGITS_END_PX = 3, 8, 13
_TEXT, _LINE, _GOLD, _DARK = (255, 255, 255), (24, 20, 30), (255, 200, 60), (52, 48, 60)


class TextCraftOutcome(enum.IntEnum):
    """Outcome of an action."""

    START = 0
    LOOKED = 1
    GOT = 2
    CRAFTED = 3
    NOT_GATHERED = 4
    TOO_FEW = 5
    NO_ROOM = 6
    NOTHING = 7


_BAR_COLORS = {
    TextCraftOutcome.START: BACKGROUND,
    TextCraftOutcome.LOOKED: (150, 150, 160),
    TextCraftOutcome.GOT: (60, 190, 90),
    TextCraftOutcome.CRAFTED: (70, 130, 240),
    TextCraftOutcome.NOT_GATHERED: (240, 150, 50),
    TextCraftOutcome.TOO_FEW: (220, 60, 60),
    TextCraftOutcome.NO_ROOM: (170, 70, 200),
    TextCraftOutcome.NOTHING: (90, 70, 60),
}

_DIGITS = (
    "### #.# #.# #.# ###",
    ".#. ##. .#. .#. ###",
    "### ..# ### #.. ###",
    "### ..# ### ..# ###",
    "#.# #.# ### ..# ..#",
    "### #.. ### ..# ###",
    "### #.. ### #.# ###",
    "### ..# .#. .#. .#.",
    "### #.# ### #.# ###",
    "### #.# ### ..# ###",
)


@struct.dataclass
class Scene:
    """Scene of TextCraft.

    Attributes:
        goal: Item to craft, int32 ().
        book: Shown recipes, int32 (S,); NONE after the last one.
        inventory: Amount of each item in the bag, int32 (N,).
        outcome: Outcome of the last action, a `TextCraftOutcome`, int32 ().
        item: Item of the last action, or NONE, int32 ().
        amount: Amount that it gathered or crafted, int32 ().
    """

    goal: jax.Array
    book: jax.Array
    inventory: jax.Array
    outcome: jax.Array
    item: jax.Array
    amount: jax.Array


def draw(scene: Scene) -> jax.Array:
    """Return the frame of a scene, uint8 (84, 84, 3), row first."""
    bag = _slots(*_carried(scene.inventory)).reshape(BAG_ROWS, BAG_COLUMNS, SLOT_PX, SLOT_PX, 3)
    bag = bag.swapaxes(1, 2).reshape(BAG_ROWS * SLOT_PX, SCREEN_PX, 3)
    return jnp.concatenate([_heading(scene), bag, _marks(scene.book)])


def _heading(scene: Scene) -> jax.Array:
    """Return the row with the goal and the last outcome, uint8 (14, 84, 3)."""
    goal = _framed(_images(scene.goal, _ICON_X_PX))
    about = _slots(scene.item[None], scene.amount[None])[0]
    color = jnp.asarray([_BAR_COLORS[outcome] for outcome in TextCraftOutcome], jnp.uint8)[scene.outcome]
    bar = np.tile(np.asarray(_LINE, np.uint8), (SLOT_PX, SCREEN_PX - 2 * SLOT_PX, 1))
    return jnp.concatenate([goal, about, jnp.asarray(bar).at[_INNER, _INNER].set(color)], axis=1)


def _framed(image: jax.Array) -> jax.Array:
    """Return a slot with a golden frame."""
    inner = np.zeros((SLOT_PX, SLOT_PX, 1), bool)
    inner[_INNER, _INNER] = True
    return jnp.where(inner, image, jnp.asarray(_GOLD, jnp.uint8)[None, None])


def _carried(inventory: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the first items of the bag, NONE if there are fewer, and their amounts, int32 (24,) each."""
    num_items = inventory.size
    # Sorting the carried items to the front is ten times as fast as searching each slot's item.
    front = lax.sort(jnp.where(inventory > 0, jnp.arange(num_items), num_items))[:NUM_SLOTS]
    is_empty = front == num_items
    return jnp.where(is_empty, NONE, front), jnp.where(is_empty, 0, inventory[front])


def _slots(items: jax.Array, counts: jax.Array) -> jax.Array:
    """Return icons of items with their amounts; no digits for 0. uint8 (K, 14, 14, 3)."""
    images = jax.vmap(functools.partial(_images, y_px=0))(items)
    return jnp.where(jnp.asarray(_count_masks())[counts][..., None], jnp.uint8(_TEXT[0]), images)


def _images(item: jax.Array, y_px: int) -> jax.Array:
    """Return slots with the icon of an item at a height, uint8 (14, 14, 3)."""
    slot = np.empty((SLOT_PX, SLOT_PX, 3), np.uint8)
    slot[:], slot[-1], slot[:, -1] = BACKGROUND, _LINE, _LINE
    icon = jnp.asarray(icons())[jnp.where(item == NONE, len(world().names), item)]
    return jnp.asarray(slot).at[y_px : y_px + ICON_PX, _ICON_X_PX : _ICON_X_PX + ICON_PX].set(icon)


@functools.cache
def _count_masks() -> np.ndarray:
    """Return masks of the white digits of each amount in a slot, bool (1000, 14, 14)."""
    digits = [bitmap(rows) for rows in _DIGITS]
    masks = np.zeros((MOST_CARRIED + 1, SLOT_PX, SLOT_PX), bool)
    for count in range(1, MOST_CARRIED + 1):
        for place, digit in enumerate(reversed(str(count))):
            end = _DIGITS_END_PX - (_DIGIT_WIDTH_PX + 1) * place
            image = digits[int(digit)]
            masks[count, _DIGITS_Y_PX : _DIGITS_Y_PX + len(image), end - _DIGIT_WIDTH_PX : end] = image
    return masks


def is_shown(book: jax.Array) -> jax.Array:
    """Return whether a book has each recipe, bool (R,)."""
    return jnp.any(book[None] == jnp.arange(len(world().recipes))[:, None], axis=1)


def _marks(book: jax.Array) -> jax.Array:
    """Return the marks of the recipes, uint8 (14, 84, 3)."""
    outputs = [world().items[recipe.output[1]] for recipe in world().recipes]
    unused = MARK_ROWS * SCREEN_PX - len(outputs)
    shown = jnp.where(is_shown(book)[:, None], jnp.asarray(colors()[outputs, 0]), jnp.asarray(_DARK, jnp.uint8)[None])
    marks = jnp.concatenate([shown, jnp.tile(jnp.asarray([_LINE], jnp.uint8), (unused, 1))])
    marks = jnp.repeat(marks.reshape(MARK_ROWS, SCREEN_PX, 3), _MARK_HEIGHT_PX, axis=0)
    line = jnp.tile(jnp.asarray(_LINE, jnp.uint8)[None, None], (1, SCREEN_PX, 1))
    return jnp.concatenate([line, marks, line])


def symbols(scene: Scene) -> jax.Array:
    """Return a scene as numbers, float32 (1521,): the content of the frame, and the whole bag.

    In order: the goal one-hot (393), the amount of each item divided by 999 (393), the shown recipes (333), the last
    outcome one-hot (8), its item one-hot (393; zeros for none) and its amount divided by 999 (1).
    """
    one_hot = functools.partial(jax.nn.one_hot, dtype=jnp.float32)
    num_items, most = len(world().names), np.float32(MOST_CARRIED)
    return jnp.concatenate(
        [
            one_hot(scene.goal, num_items),
            scene.inventory.astype(jnp.float32) / most,
            is_shown(scene.book).astype(jnp.float32),
            one_hot(scene.outcome, len(TextCraftOutcome)),
            one_hot(scene.item, num_items),
            scene.amount.astype(jnp.float32)[None] / most,
        ]
    )
