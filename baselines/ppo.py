"""Recurrent PPO, wholly inside one jitted call: collect, estimate, update.

Schulman et al., 2017 (arXiv 1707.06347), with the settings of Pleines et al., JMLR 26(6), 2025 (arXiv 2309.17207) as
the `paper` scale. Against the published code: minibatches are of whole lanes, or of their sequences of `bptt` steps (it
mixes episode fragments), the recurrence is reset inside the scan (it pads fragments), biases start at zero, and a time
limit is bootstrapped unless `bootstrap_time_limits` is off.

Axes: T steps of a rollout, B environments, K action branches, S seeds. Nothing here places arrays on devices, see
`baselines.devices`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from baselines.compiler import compiler_options
from baselines.config import Config
from baselines.errors import ConfigError
from baselines.game import TrainingGame, frame_shape, ground_truth_of, success_of
from baselines.losses import (
    Sizes,
    entropy,
    gae,
    log_prob,
    normalise,
    policy_loss,
    sample_action,
    value_loss,
)
from baselines.memories.cell import State
from baselines.networks import ActorCritic, Observation, Output, frame_of, make_network, reconstruction_loss
from baselines.rates import Rates, rates_of

Metrics = dict[str, jax.Array]
SEED_AXIS = "seeds"


class Setup(NamedTuple):
    """What stays the same through a run and holds no array."""

    config: Config
    env: Any
    network: ActorCritic
    optimiser: optax.GradientTransformation
    sizes: Sizes
    has_branches: bool  # actions are int32 (B, K), else int32 (B,)
    seed_axis: str | None  # name of the vmapped axis of seeds
    truth_of: Callable[[Any], jax.Array] | None = None  # what a head learns to tell of an environment's state
    vmap_axis: str | None = None  # name of the axis that the update is vmapped over
    mean_axis: str | None = None  # name of the axis that gradients are averaged over


class TrainState(NamedTuple):
    """All that a run carries from update to update; saved and restored as a whole."""

    params: Any
    optimiser: optax.OptState
    env_state: Any  # leaves (B, ...)
    observation: Observation  # leaves (B, ...)
    start: jax.Array  # whether `observation` is the first of its episode, bool (B,)
    memory: State  # before `observation`, leaves (B, ...)
    key: jax.Array
    update: jax.Array  # updates done, int32 ()


class Trajectory(NamedTuple):
    """What was seen and done, leaves (T, B, ...)."""

    observation: Observation
    start: jax.Array  # bool
    action: jax.Array  # int32 (T, B, K)
    log_prob: jax.Array  # float32 (T, B, K)
    value: jax.Array  # float32
    reward: jax.Array  # float32
    terminated: jax.Array  # bool
    truncated: jax.Array  # bool
    final_value: jax.Array  # value of the last observation where a time limit cut the episode, else 0, float32
    truth: Any = ()  # the hidden truth at the observation, float32 (T, B, n), where there is a head for it


class Batch(NamedTuple):
    """A rollout with its learning targets, leaves (T, B, ...), and where the C sequences of each lane began."""

    rollout: Trajectory
    memory: State  # before the first step of each sequence, leaves (C B, ...)
    advantage: jax.Array
    target: jax.Array


def make_setup(config: Config, game: TrainingGame) -> Setup:
    """Network and optimiser for a game.

    Raises:
        ConfigError: when the memory is unknown or does not fit the game, the action space has no policy head, or the
            game has no ground truth for its head; or when JAX computes in 64 bits.
    """
    if jax.config.read("jax_enable_x64"):
        raise ConfigError("jax_enable_x64 is on, and agents learn and act in 32 bits: unset JAX_ENABLE_X64")
    space = game.env.action_space(game.params)
    truth_of, truth_size = _truth(config, game)
    network = make_network(config, space, frame_shape(game), truth_size)
    optimiser = optax.chain(
        optax.clip_by_global_norm(config.max_grad_norm),
        optax.scale_by_adam(),
        optax.add_decayed_weights(config.weight_decay),
    )
    seed_axis = SEED_AXIS if config.num_seeds > 1 else None
    has_branches = hasattr(space, "nvec")
    return Setup(
        config, game.env, network, optimiser, network.sizes, has_branches, seed_axis, truth_of, vmap_axis=seed_axis
    )


def _truth(config: Config, game: TrainingGame) -> tuple[Callable[[Any], jax.Array] | None, int]:
    """What the head for the ground truth learns, and of how many numbers."""
    if not config.ground_truth_head:
        return None, 0
    truth_of = ground_truth_of(game.env)
    if truth_of is None:
        raise ConfigError(
            f"--ground-truth-head tells what an endless game hides, and {config.env} has no such numbers: leave it out"
        )
    _, env_state = jax.eval_shape(game.env.reset, jax.random.key(0), game.params)
    return truth_of, jax.eval_shape(truth_of, env_state).shape[0]


def init_state(setup: Setup, seed: jax.Array, env_params: Any) -> TrainState:
    """Return the state before update 0 of a seed, int32 ()."""
    key_network, key_reset, key = jax.random.split(jax.random.key(seed), 3)
    num_envs = setup.config.num_envs
    observation, env_state = jax.vmap(setup.env.reset, (0, None))(jax.random.split(key_reset, num_envs), env_params)
    memory = setup.network.memory.initial_state(num_envs)
    start = jnp.ones(num_envs, bool)
    reconstruct = int(setup.config.reconstruction > 0)
    params = setup.network.init(key_network, memory, *_one_step(observation, start), reconstruct=reconstruct)
    update = jnp.zeros((), jnp.int32)
    return TrainState(params, setup.optimiser.init(params), env_state, observation, start, memory, key, update)


def make_init(setup: Setup) -> Callable[[jax.Array, Any], TrainState]:
    """Return a jitted function of seeds, int32 () or (S,), and environment parameters: the state before update 0."""
    init = partial(init_state, setup)
    if setup.seed_axis is None:
        return jax.jit(init)
    # One seed after the other: orthogonal matrices come from QR, and a batched QR can stop XLA's CPU runtime for ever.
    return jax.jit(lambda seeds, env_params: lax.map(lambda seed: init(seed, env_params), seeds))


def seeds_of(setup: Setup) -> jax.Array:
    """Return the argument of the init function: the seed, int32 (), or consecutive ones, int32 (S,)."""
    seeds = jnp.arange(setup.config.seed, setup.config.seed + setup.config.num_seeds, dtype=jnp.int32)
    return seeds if setup.seed_axis else seeds[0]


class TrainBlock(Protocol):
    """A compiled program that makes `block_updates` updates."""

    def __call__(self, state: TrainState, env_params: Any, rates: Rates | None = None) -> tuple[TrainState, Metrics]:
        """Return the new state and metrics, float32 (block_updates,), or (S, block_updates) with several seeds.

        Args:
            state: is donated.
            env_params: of the environment.
            rates: of all seeds, or (S,) of each; those of the config by default. Other values compile nothing anew.
        """
        ...


def make_train_block(setup: Setup) -> TrainBlock:
    """Return the jitted train block of a run on one device."""
    return with_rates(setup, jax.jit(seeds_block(setup), donate_argnums=0, compiler_options=compiler_options()))


def with_rates(setup: Setup, block: Callable[..., tuple[TrainState, Metrics]]) -> TrainBlock:
    """Return the train block whose default rates are those of the config."""
    shape = (setup.config.num_seeds,) if setup.seed_axis else ()
    own = jax.tree.map(lambda leaf: np.broadcast_to(leaf, shape), rates_of(setup.config))

    def with_default(state: TrainState, env_params: Any, rates: Rates | None = None) -> tuple[TrainState, Metrics]:
        given = own if rates is None else jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape), rates)
        return block(state, env_params, given)

    return with_default


def seeds_block(setup: Setup) -> Callable[[TrainState, Any, Rates], tuple[TrainState, Metrics]]:
    """Return the function that `make_train_block` compiles, for programs that it is a part of."""

    def block(state: TrainState, env_params: Any, rates: Rates) -> tuple[TrainState, Metrics]:
        def one_update(state: TrainState, _: None) -> tuple[TrainState, Metrics]:
            return train_update(setup, state, env_params, rates)

        return lax.scan(one_update, state, length=setup.config.block_updates)

    return jax.vmap(block, in_axes=(0, None, 0), axis_name=setup.seed_axis) if setup.seed_axis else block


def _mean(setup: Setup, tree: Any) -> Any:
    """Return the mean over the axis that gradients are averaged over, if there is one."""
    return tree if setup.mean_axis is None else lax.pmean(tree, setup.mean_axis)


def train_update(setup: Setup, state: TrainState, env_params: Any, rates: Rates) -> tuple[TrainState, Metrics]:
    """One rollout and the gradient steps on it."""
    key, key_minibatches = jax.random.split(state.key)
    state, rollout, memory, metrics = collect(setup, state._replace(key=key), env_params)
    metrics = metrics if setup.mean_axis is None else lax.psum(metrics, setup.mean_axis)
    batch = estimate(setup, state, rollout, memory)
    state, update_metrics = update(setup, state, batch, key_minibatches, rates)
    return state, metrics | update_metrics


def collect(setup: Setup, state: TrainState, env_params: Any) -> tuple[TrainState, Trajectory, State, Metrics]:
    """T steps of each lane with fixed parameters.

    Returns:
        The state after them, what was seen and done, the memory before each sequence with leaves (C B, ...), and sums
        over the episodes that ended.
    """
    config = setup.config

    def step(state: TrainState, _: None) -> tuple[TrainState, tuple[Trajectory, Metrics]]:
        key, key_action, key_step = jax.random.split(state.key, 3)
        keys_step = jax.random.split(key_step, state.start.shape[0])
        memory, output = policy(state.memory, state.observation, state.start)
        action = sample_action(key_action, output.logits, setup.sizes)
        command = action if setup.has_branches else action[..., 0]
        observation, env_state, reward, terminated, truncated, info = jax.vmap(setup.env.step, (0, 0, 0, None))(
            keys_step, state.env_state, command, env_params
        )
        cut = truncated & ~terminated

        def final_observation() -> Observation:
            # The same step again, for the one thing that is not kept: read outside, it would be drawn on every step.
            again = jax.vmap(setup.env.step, (0, 0, 0, None))
            return again(jax.random.clone(keys_step), state.env_state, command, env_params)[5]["final_observation"]

        final_value = _value_where(setup, policy, memory, final_observation, cut)
        taken = Trajectory(
            observation=state.observation,
            start=state.start,
            action=action,
            log_prob=log_prob(output.logits, action, setup.sizes),
            value=output.value,
            reward=reward.astype(jnp.float32),
            terminated=terminated,
            truncated=truncated,
            final_value=final_value,
            truth=jax.vmap(setup.truth_of)(state.env_state) if setup.truth_of else (),
        )
        ended = terminated | truncated
        score = jax.vmap(setup.env.normalized_return, (0, 0, None))(info, state.env_state, env_params)
        sums = _episode_sums(info, score, ended)
        state = state._replace(env_state=env_state, observation=observation, start=ended, memory=memory, key=key)
        return state, (taken, sums)

    memory = state.memory
    policy = partial(act, setup, setup.network.precompute(state.params))
    if config.sequence_steps == config.num_steps:
        state, (rollout, sums) = lax.scan(step, state, length=config.num_steps)
    else:

        def sequence(state: TrainState, _: None) -> tuple[TrainState, tuple[State, tuple[Trajectory, Metrics]]]:
            after, taken = lax.scan(step, state, length=config.sequence_steps)
            return after, (state.memory, taken)

        state, stacked = lax.scan(sequence, state, length=config.num_steps // config.sequence_steps)
        memory, (rollout, sums) = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), stacked)
    return state, rollout, memory, jax.tree.map(lambda leaf: leaf.sum(axis=0), sums)


def act(setup: Setup, params: Any, memory: State, observation: Observation, start: jax.Array) -> tuple[State, Output]:
    """Memory state after one step of B lanes, and the heads' outputs with leading axis B."""
    memory, output = _apply(setup, params, memory, *_one_step(observation, start))
    return memory, jax.tree.map(lambda leaf: leaf[0], output)


def _apply(
    setup: Setup, params: Any, memory: State, observation: Observation, start: jax.Array, *, reconstruct: int = 0
) -> tuple[State, Output]:
    applied: Any = setup.network.apply(params, memory, observation, start, reconstruct=reconstruct)
    return applied


def _one_step(observation: Observation, start: jax.Array) -> tuple[Observation, jax.Array]:
    return jax.tree.map(lambda leaf: leaf[None], (observation, start))


def _value_where(
    setup: Setup, policy: Callable[..., Any], memory: State, observe: Callable[[], Observation], cut: jax.Array
) -> jax.Array:
    """Value of what `observe` returns in the lanes where `cut` holds, else 0; costs nothing when it holds nowhere."""
    if not setup.config.bootstrap_time_limits:
        return jnp.zeros(cut.shape, jnp.float32)
    is_any = cut.any()
    if setup.vmap_axis:
        # One predicate for all seeds: one per seed would make vmap compute both branches always.
        is_any = lax.psum(is_any.astype(jnp.int32), setup.vmap_axis) > 0

    def value() -> jax.Array:
        _, output = policy(memory, observe(), jnp.zeros_like(cut))
        return jnp.where(cut, output.value, 0.0)

    return lax.cond(is_any, value, lambda: jnp.zeros(cut.shape, jnp.float32))


def _episode_sums(info: dict[str, jax.Array], score: jax.Array, ended: jax.Array) -> Metrics:
    values = {
        "return": info["reward"],
        "length": info["length"],
        "success": success_of(info),
        "score": score,
        "episodes": ended,
    }
    return {name: jnp.where(ended, value.astype(jnp.float32), 0.0).sum() for name, value in values.items()}


def estimate(setup: Setup, state: TrainState, rollout: Trajectory, memory: State) -> Batch:
    """Advantages and value targets of a rollout whose sequences began with `memory` and that led to `state`."""
    config = setup.config
    _, output = act(setup, state.params, state.memory, state.observation, state.start)
    next_value = jnp.concatenate([rollout.value[1:], output.value[None]])
    next_value = jnp.where(rollout.truncated, rollout.final_value, next_value)
    next_value = jnp.where(rollout.terminated, 0.0, next_value)
    ended = rollout.terminated | rollout.truncated
    advantage = gae(rollout.reward, rollout.value, next_value, ended, gamma=config.gamma, gae_lambda=config.gae_lambda)
    return Batch(rollout, memory, advantage, advantage + rollout.value)


def update(setup: Setup, state: TrainState, batch: Batch, key: jax.Array, rates: Rates) -> tuple[TrainState, Metrics]:
    """`epochs` passes over the batch in minibatches of whole sequences, drawn anew for each pass."""
    config = setup.config
    fraction = state.update.astype(jnp.float32) * (config.batch_steps / config.decay_length)
    learning_rate, entropy_coef = rates.learning_rate.at(fraction), rates.entropy_coef.at(fraction)

    def step(learned: tuple[Any, optax.OptState], chosen: jax.Array) -> tuple[tuple[Any, optax.OptState], Metrics]:
        params, optimiser = learned
        minibatch = take_sequences(batch, chosen, config.sequence_steps)
        grads, metrics = jax.grad(minibatch_loss, argnums=1, has_aux=True)(
            setup, params, minibatch, entropy_coef, rates.clip
        )
        grads = _mean(setup, grads)
        metrics["grad_norm"] = optax.tree.norm(grads)
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to the power of its integer count
            changes, optimiser = setup.optimiser.update(grads, optimiser, params)
        params = jax.tree.map(lambda param, change: param - learning_rate * change, params, changes)
        return (params, optimiser), metrics

    num_sequences = batch.advantage.size // config.sequence_steps
    keys = jax.random.split(key, config.epochs)
    chosen = jax.vmap(lambda key: jax.random.permutation(key, num_sequences))(keys)
    chosen = chosen.reshape(config.epochs * config.minibatches, -1)
    (params, optimiser), metrics = lax.scan(step, (state.params, state.optimiser), chosen)
    metrics = _mean(setup, jax.tree.map(lambda leaf: leaf.mean(axis=0), metrics))
    metrics |= {"learning_rate": learning_rate, "entropy_coef": entropy_coef}
    return state._replace(params=params, optimiser=optimiser, update=state.update + 1), metrics


def take_sequences(batch: Batch, chosen: jax.Array, steps: int) -> Batch:
    """Some sequences of a batch, gathered inside the minibatch loop so that the rollout is never copied whole.

    Args:
        batch: of T steps of B lanes.
        chosen: indices c B + b of the c-th sequences of lanes b, (M,).
        steps: of one sequence, N = T / C.

    Returns:
        Memory leaves (M, ...), all others (N, M, ...).
    """
    memory = jax.tree.map(lambda leaf: jnp.take(leaf, chosen, axis=0), batch.memory)
    num_steps, num_lanes = batch.advantage.shape

    def take(leaf: jax.Array) -> jax.Array:
        if steps == num_steps:
            return jnp.take(leaf, chosen, axis=1)
        sequence, lane = jnp.divmod(chosen, num_lanes)
        step = jnp.arange(steps, dtype=chosen.dtype)[:, None]
        return leaf[sequence[None] * steps + step, lane[None]]

    return jax.tree.map(take, batch._replace(memory=()))._replace(memory=memory)


def minibatch_loss(
    setup: Setup, params: Any, batch: Batch, entropy_coef: jax.Array, clip: jax.Array
) -> tuple[jax.Array, Metrics]:
    """PPO's loss on some lanes, and its parts."""
    config, rollout = setup.config, batch.rollout
    # Sequences come in random order, so the first of them are a fair sample.
    drawn = config.reconstruction_share * rollout.start.shape[1]
    reconstruct = max(1, round(drawn)) if config.reconstruction > 0 else 0
    _, output = _apply(setup, params, batch.memory, rollout.observation, rollout.start, reconstruct=reconstruct)
    advantage = batch.advantage
    if config.normalise_advantage:
        advantage = normalise(advantage, lambda values: _mean(setup, values.mean()))
    new_log_prob = log_prob(output.logits, rollout.action, setup.sizes)
    policy = policy_loss(new_log_prob, rollout.log_prob, advantage, clip=clip, joint=config.joint_ratio)
    value = value_loss(output.value, rollout.value, batch.target, clip=clip)
    mean_entropy = entropy(output.logits, setup.sizes).mean()
    loss = policy.loss + config.value_coef * value - entropy_coef * mean_entropy
    metrics = {
        "policy_loss": policy.loss,
        "value_loss": value,
        "entropy": mean_entropy,
        "approx_kl": policy.approx_kl,
        "clip_fraction": policy.clip_fraction,
    }
    if reconstruct:
        metrics["reconstruction_loss"] = reconstruction_loss(
            output.picture, frame_of(rollout.observation)[:, :reconstruct]
        )
        loss = loss + config.reconstruction * metrics["reconstruction_loss"]
    if setup.truth_of:
        metrics["truth_loss"] = ((output.truth - rollout.truth) ** 2).mean()
        loss = loss + config.ground_truth_head * metrics["truth_loss"]
    metrics["loss"] = loss
    return loss, metrics
