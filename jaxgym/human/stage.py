"""Episodes with an image of each state, on the level of a seed."""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym import levels, registration
from jaxgym.errors import OptionError, nearest
from jaxgym.observability import partial_of
from jaxgym.pytrees import frame_of
from jaxgym.rendering.canvas import enlarged
from jaxgym.spec import Human

POLICIES = ("random", "noop", "expert")

Policy = Callable[[jax.Array, Any, Any], jax.Array]


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """State of an episode with its image.

    Attributes:
        state: The state.
        image: uint8 (H, W, 3), row first.
        info: The `info` of the last step, without observations; empty at the start.
        has_ended: Whether the last step ended the episode.
    """

    state: Any
    image: np.ndarray
    info: dict[str, Any]
    has_ended: bool


class Stage:
    """Environment that renders an image of each state."""

    def __init__(self, env_id: str, options: dict[str, Any], *, ground_truth: bool = False) -> None:
        """Make the environment with options of `jaxgym.make`; `ground_truth` makes images show hidden information.

        Raises:
            UnknownIdError: If the id is not registered.
            OptionError: If an option is invalid, or the environment has no image with these options.
        """
        spec = registration.spec_of(env_id)
        observed = spec.all_options.get("observation")
        pixels = {"observation": "pixels"} if observed is not None and observed.accepts("pixels") else {}
        self.env, self.params = registration.make(env_id, **{"levels": "fresh", **pixels, **options})
        self.human: Human | None = spec.human
        observation = jax.eval_shape(self.env.reset_env, jax.random.key(0), self.params)[0]
        if ground_truth and self.human is None:
            raise OptionError(f"{env_id} has no ground-truth view. Leave out --ground-truth.")
        if not ground_truth and frame_of(self.env, observation) is None:
            if pixels:
                raise OptionError(f"{env_id} has no frames with these options. Leave out observation, or use 'pixels'.")
            view = "Register it with a Spec whose human has a view, for --ground-truth"
            fix = "Use --ground-truth" if self.human else view
            raise OptionError(f"{env_id}: expected an observation with a frame, uint8 (H, W, 3), got none. {fix}.")
        self._view = self.human.view if ground_truth and self.human else None

    def start(self, seed: int) -> Snapshot:
        """Start an episode on the level of a seed."""
        state, image = self._start(jnp.uint32(seed))
        return Snapshot(state, np.asarray(image), {}, has_ended=False)

    def step(self, moment: Snapshot, action: Any) -> Snapshot:
        """Make a step."""
        state, image, info, has_ended = self._step(moment.state, jnp.asarray(action))
        info = {name: np.asarray(value) for name, value in info.items()}
        return Snapshot(state, np.asarray(image), info, bool(has_ended))

    def play(self, policy: Policy, seed: int, max_steps: int) -> Iterator[Snapshot]:
        """Play an episode of at most `max_steps` steps; yield the start and each step."""
        moment = self.start(seed)
        yield moment
        choose = jax.jit(policy)
        key = jax.random.key(seed)
        for number in range(max_steps):
            key_action = jax.random.fold_in(key, number)
            moment = self.step(moment, choose(key_action, moment.state, self.params))
            yield moment
            if moment.has_ended:
                return

    def policy_of(self, name: str) -> Policy:
        """Return the policy of a name, a function of key, state and parameters.

        Raises:
            OptionError: If the environment has no such policy.
        """
        env, expert = self.env, registration.spec_of(self.env.env_id).expert
        space = env.action_space(self.params)
        policies: dict[str, Policy] = {
            "random": lambda key, *_: space.sample(key),
            "noop": lambda *_: jnp.zeros(space.shape, jnp.int32),
        }
        if expert is not None:
            policies["expert"] = lambda _, state, params: expert(env, state, params)
        if name not in policies:
            raise OptionError(
                f"{env.env_id}: policy: expected {', '.join(policies)}, zoo or the folder of a run, got "
                f"{name!r}{nearest(name, policies)}."
            )
        return policies[name]

    @partial(jax.jit, static_argnames=("self",))
    def _start(self, seed: jax.Array) -> tuple[Any, jax.Array]:
        level = levels.level_from_seed(self.env, seed, self.params)
        state = self.env.initial_state(level, self.params)
        return state, self._draw(state)

    @partial(jax.jit, static_argnames=("self",))
    def _step(self, state: Any, action: jax.Array) -> tuple[Any, jax.Array, dict[str, Any], jax.Array]:
        _, stepped, _, terminated, info = self.env.step_env(jax.random.key(0), state, action, self.params)
        return stepped, self._draw(stepped), info, terminated | self.env.is_truncated(stepped, self.params)

    def _draw(self, state: Any) -> jax.Array:
        if self._view is not None:
            return self._view(partial_of(self.env), state, self.params)
        return enlarged(frame_of(self.env, self.env.observe(jax.random.key(0), state, None, self.params)))
