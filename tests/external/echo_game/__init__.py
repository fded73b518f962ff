"""Echo: a number is shown once, and has to be repeated when the screen is blank. A memory game of another package."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

import jaxgym
from jaxgym import text
from jaxgym.options import Integer, traced
from jaxgym.spaces import Box, Discrete
from jaxgym.text.actions import ActionSet

NUMBERS = ("zero", "one", "two", "three")
NUM_NUMBERS = len(NUMBERS)
HIDDEN = -1
SIDE_PX = 16


@struct.dataclass
class Level:
    """The number to remember, int32 ()."""

    number: jax.Array


@struct.dataclass
class State(jaxgym.EnvState):
    """The number of steps is all that changes."""


@struct.dataclass
class Params(jaxgym.EnvParams):
    """The traced option."""

    delay: jax.Array = traced(Integer(2, "blank steps before the answer counts", low=0))


@struct.dataclass
class Scene:
    """The number on the screen, int32 (); -1 where it is blank."""

    shown: jax.Array


@dataclasses.dataclass(unsafe_hash=True)
class Echo(jaxgym.Environment[Level, State, Params, Scene]):
    """Echo.

    Observation: the number that is shown as a one-hot vector, zeros when the screen is blank.
    Action: one of four numbers.
    Reward: 1 for repeating the number when its step has come.
    """

    def action_space(self, params: Params | None = None) -> Discrete:
        """Return the four numbers."""
        return Discrete(NUM_NUMBERS)

    def observation_space(self, params: Params | None = None) -> Box:
        """Return the vectors of four numbers."""
        return Box(0, 1, (NUM_NUMBERS,), jnp.float32)

    def sample_level(self, key: jax.Array, params: Params) -> Level:
        """Sample a number."""
        return Level(jax.random.randint(key, (), 0, NUM_NUMBERS, jnp.int32))

    def initial_state(self, level: Level, params: Params) -> State:
        """Return the state that shows the number."""
        return State(level=level)

    def transition(self, state: State, action: jax.Array, params: Params) -> jaxgym.Transition:
        """End the episode with the answer."""
        is_asked = state.time > params.delay
        is_right = is_asked & (action == state.level.number)
        return jaxgym.Transition(state, is_right.astype(jnp.float32), is_asked, {"success": is_right.astype(jnp.int32)})

    def scene(self, state: State, params: Params) -> Scene:
        """Return the number at the start, and a blank after it."""
        return Scene(jnp.where(state.time == 0, state.level.number, HIDDEN))

    def observe_scene(self, scene: Scene) -> jax.Array:
        """Return the number as a one-hot vector."""
        return jax.nn.one_hot(scene.shown, NUM_NUMBERS, dtype=jnp.float32)


class EchoText(text.TextInterface[Scene]):
    """Text interface of Echo."""

    MOVES = ActionSet({name: number for number, name in enumerate(NUMBERS)}, {}, 1, "two")

    def system_prompt(self, params: Any) -> str:
        """Return the rules and the form of a reply."""
        return f"A number is shown once. Repeat it after {int(params.delay)} blank screens.\n{self.MOVES.help()}"

    def describe(self, scene: Scene, params: Any) -> str:
        """Return the number, if it is shown."""
        return "The screen is blank." if scene.shown < 0 else f"The screen shows {NUMBERS[int(scene.shown)]}."

    def parse(self, reply: str) -> text.ParsedAction | text.InvalidReply:
        """Return the number of a reply."""
        return self.MOVES.parse(reply, self.parsing)

    def fallback(self) -> text.ParsedAction:
        """Return the reply 0."""
        return self.MOVES.idle

    def reply_of(self, action: Any) -> str:
        """Return a number in its tag."""
        return self.MOVES.reply_of(int(action))


def view(env: Echo, state: State, params: Params) -> jax.Array:
    """Return a gray image of the number, uint8 (16, 16, 3)."""
    gray = (state.level.number * (np.iinfo(np.uint8).max // NUM_NUMBERS)).astype(jnp.uint8)
    return jnp.broadcast_to(gray, (SIDE_PX, SIDE_PX, 3))


SPEC = jaxgym.Spec(
    Echo,
    Params,
    expert=lambda env, state, params: state.level.number,
    human=jaxgym.Human(view, "text"),
    text=jaxgym.TextSpec(lambda env, values: EchoText(env.env_id)),
)
