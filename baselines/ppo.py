"""Recurrent PPO in one jitted call: collect a rollout, estimate advantages, update the parameters.

Schulman et al., 2017 (arXiv 1707.06347). The settings of Pleines et al., JMLR 26(6), 2025 (arXiv 2309.17207) are the
`paper` scale. Differences from the published code:

- A minibatch holds whole environments, or their sequences of `bptt` steps; the published code mixes episode fragments.
- The scan resets the recurrent state at episode starts; the published code pads fragments.
- Biases start at zero.
- The value is bootstrapped at a time limit, unless `bootstrap_time_limits` is off.

Axes: T steps of a rollout, B environments, K action branches, S seeds. `baselines.devices` places arrays on devices.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

import jaxgym  # it imports `levels` on first use, which starts a JAX backend
from baselines import curriculum
from baselines.config import Config
from baselines.encoders import Observation, without_symbols
from baselines.errors import ConfigError
from baselines.game import TrainingGame, frame_shape, ground_truth_of, observed_symbols, success_of
from baselines.losses import Sizes, entropy, gae, log_prob, normalize, policy_loss, sample_action, value_loss
from baselines.memories.cell import State
from baselines.networks import ActorCritic, Output, make_network, reconstruction_loss
from baselines.rates import Rates, rates_of
from jaxgym.pytrees import first_frame

Metrics = dict[str, jax.Array]
SEED_AXIS = "seeds"


class Setup(NamedTuple):
    """Static parts of a run, without arrays."""

    config: Config
    env: Any
    network: ActorCritic
    optimizer: optax.GradientTransformation
    sizes: Sizes
    has_branches: bool  # actions are int32 (B, K), else int32 (B,)
    seed_axis: str | None  # name of the vmapped seed axis
    ground_truth_fn: Callable[[Any], jax.Array] | None = None  # maps an environment's state to the auxiliary target
    vmap_axis: str | None = None  # name of the axis that the update is vmapped over
    mean_axis: str | None = None  # name of the axis that gradients are averaged over
    stages: Any = None  # environment parameters of each stage of the curriculum `grow`, NumPy leaves (K, ...)

    @property
    def params_axes(self) -> Any:
        """Axes of the environment parameters in `vmap`: one for all environments, unless each has its own stage."""
        return None if self.stages is None else jaxgym.levels.params_axes(self.stages)


class TrainState(NamedTuple):
    """State that is carried from update to update and saved in checkpoints."""

    params: Any
    optimizer: optax.OptState
    env_state: Any  # leaves (B, ...)
    observation: Observation  # leaves (B, ...)
    start: jax.Array  # whether `observation` is the first of its episode, bool (B,)
    memory: State  # recurrent state before `observation`, leaves (B, ...)
    key: jax.Array
    update: jax.Array  # number of updates done, int32 ()
    curriculum: Any = ()  # `curriculum.CurriculumState`


class Trajectory(NamedTuple):
    """Transitions of a rollout, leaves (T, B, ...)."""

    observation: Observation
    start: jax.Array  # bool
    action: jax.Array  # int32 (T, B, K)
    log_prob: jax.Array  # float32 (T, B, K)
    value: jax.Array  # float32
    reward: jax.Array  # float32
    terminated: jax.Array  # bool
    truncated: jax.Array  # bool
    final_value: jax.Array  # value of the last observation of truncated episodes, else 0, float32
    ground_truth: Any = ()  # auxiliary target, float32 (T, B, n), if there is a ground-truth head
    level: Any = ()  # index of the level in the level buffer, int32 (T, B), if the curriculum scores levels


class Batch(NamedTuple):
    """A rollout with its targets, leaves (T, B, ...), and the recurrent states from which its sequences start."""

    rollout: Trajectory
    memory: State  # C sequences for each environment, leaves (C B, ...)
    advantage: jax.Array
    target: jax.Array


def make_setup(config: Config, game: TrainingGame) -> Setup:
    """Build the network and the optimizer for a game.

    Raises:
        ConfigError: if the memory is unknown or does not support the game, the action space has no policy head, the
            game has no auxiliary target for the ground-truth head, or JAX computes in 64 bits.
    """
    if jax.config.read("jax_enable_x64"):
        raise ConfigError("expected JAX with 32 bits, got jax_enable_x64. Unset JAX_ENABLE_X64.")
    space = game.env.action_space(game.params)
    ground_truth_fn, ground_truth_size = _truth(config, game)
    network = make_network(config, space, frame_shape(game), ground_truth_size, observed_symbols(game))
    optimizer = optax.chain(
        optax.clip_by_global_norm(config.max_grad_norm),
        optax.scale_by_adam(),
        optax.add_decayed_weights(config.weight_decay),
    )
    seed_axis = SEED_AXIS if config.num_seeds > 1 else None
    has_branches = hasattr(space, "nvec")
    return Setup(
        config,
        game.env,
        network,
        optimizer,
        network.sizes,
        has_branches,
        seed_axis,
        ground_truth_fn,
        vmap_axis=seed_axis,
        stages=game.stages,
    )


def _truth(config: Config, game: TrainingGame) -> tuple[Callable[[Any], jax.Array] | None, int]:
    """Return the function of the auxiliary target and the length of the target; None and 0 without such a head."""
    if not config.ground_truth_head:
        return None, 0
    ground_truth_fn = ground_truth_of(game.env)
    if ground_truth_fn is None:
        raise ConfigError(
            f"--ground-truth-head: expected an environment with a ground truth, got {config.env}. Leave the flag out."
        )
    _, env_state = jax.eval_shape(game.env.reset, jax.random.key(0), game.params)
    return ground_truth_fn, jax.eval_shape(ground_truth_fn, env_state).shape[0]


def init_state(setup: Setup, seed: jax.Array, env_params: Any) -> TrainState:
    """Return the initial train state of a seed, int32 ()."""
    key_network, key_reset, key = jax.random.split(jax.random.key(seed), 3)
    num_envs = setup.config.num_envs
    scores = curriculum.initial(setup.config, env_params)
    given = curriculum.applied(env_params, scores, setup.stages)
    keys = jax.random.split(key_reset, num_envs)
    observation, env_state = jax.vmap(setup.env.reset, (0, setup.params_axes))(keys, given)
    memory = setup.network.memory.initial_state(num_envs)
    start = jnp.ones(num_envs, bool)
    reconstruct = int(setup.config.reconstruction > 0)
    params = setup.network.init(key_network, memory, *_one_step(observation, start), reconstruct=reconstruct)
    update = jnp.zeros((), jnp.int32)
    return TrainState(params, setup.optimizer.init(params), env_state, observation, start, memory, key, update, scores)


def make_init(setup: Setup) -> Callable[[jax.Array, Any], TrainState]:
    """Return a jitted function that maps seeds, int32 () or (S,), and environment parameters to the initial state."""
    init = partial(init_state, setup)
    if setup.seed_axis is None:
        return jax.jit(init)
    # Seeds run one after another: orthogonal initializers use QR, and a batched QR can hang XLA's CPU runtime.
    return jax.jit(lambda seeds, env_params: lax.map(lambda seed: init(seed, env_params), seeds))


def seeds_of(setup: Setup) -> jax.Array:
    """Return the seeds for the init function: one seed, int32 (), or consecutive seeds, int32 (S,)."""
    seeds = jnp.arange(setup.config.seed, setup.config.seed + setup.config.num_seeds, dtype=jnp.int32)
    return seeds if setup.seed_axis else seeds[0]


TrainBlock = Callable[..., tuple[TrainState, Metrics]]


def make_train_block(setup: Setup) -> TrainBlock:
    """Return a jitted function of a train state, environment parameters and optional `Rates`; it donates the state.

    The function makes `block_updates` updates. It returns the new state and metrics, float32 (block_updates,), or (S,
    block_updates) with several seeds. `Rates` hold one value for all seeds or (S,) values, by default those of the
    config. Other rates do not recompile.
    """
    return compiled_block(setup, seeds_block(setup))


def compiled_block(setup: Setup, function: TrainBlock) -> TrainBlock:
    """Return the jitted train block of a function; its default rates are those of the config."""
    block = jax.jit(function, donate_argnums=0, compiler_options=compiler_options())
    shape = (setup.config.num_seeds,) if setup.seed_axis else ()
    own = jax.tree.map(lambda leaf: np.broadcast_to(leaf, shape), rates_of(setup.config))

    def with_default(state: TrainState, env_params: Any, rates: Rates | None = None) -> tuple[TrainState, Metrics]:
        given = own if rates is None else jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape), rates)
        return block(state, env_params, given)

    return with_default


def compiler_options() -> dict[str, bool] | None:
    """Return options of `jax.jit` for programs whose loops run thousands of times; None for the defaults."""
    if jax.default_backend() != "gpu":
        return None
    # Unrolling two iterations without copying the carry in between saves 3 to 6 % of an update.
    return {"xla_gpu_enable_while_loop_double_buffering": True}


def seeds_block(setup: Setup) -> Callable[[TrainState, Any, Rates], tuple[TrainState, Metrics]]:
    """Return the function that `make_train_block` compiles, for use inside a larger program."""

    def block(state: TrainState, env_params: Any, rates: Rates) -> tuple[TrainState, Metrics]:
        def one_update(state: TrainState, _: None) -> tuple[TrainState, Metrics]:
            return train_update(setup, state, env_params, rates)

        return lax.scan(one_update, state, length=setup.config.block_updates)

    return jax.vmap(block, in_axes=(0, None, 0), axis_name=setup.seed_axis) if setup.seed_axis else block


def _mean(setup: Setup, tree: Any) -> Any:
    """Average over the axis of the gradients; without that axis, return the tree unchanged."""
    return tree if setup.mean_axis is None else lax.pmean(tree, setup.mean_axis)


def train_update(setup: Setup, state: TrainState, env_params: Any, rates: Rates) -> tuple[TrainState, Metrics]:
    """Collect one rollout and take the gradient steps on it."""
    key, key_minibatches = jax.random.split(state.key)
    env_params = curriculum.applied(env_params, state.curriculum, setup.stages)
    state, rollout, memory, metrics = collect(setup, state._replace(key=key), env_params)
    metrics = metrics if setup.mean_axis is None else lax.psum(metrics, setup.mean_axis)
    batch = estimate(setup, state, rollout, memory)
    metrics |= curriculum.measured(state.curriculum)
    seen = rollout.level, batch.advantage, state.update, setup.mean_axis
    state = state._replace(curriculum=curriculum.after_rollout(state.curriculum, setup.stages, *seen))
    state, update_metrics = update(setup, state, batch, key_minibatches, rates)
    return state, metrics | update_metrics


def collect(setup: Setup, state: TrainState, env_params: Any) -> tuple[TrainState, Trajectory, State, Metrics]:
    """Run T steps in each environment with fixed parameters.

    Returns:
        The new state, the transitions, the recurrent state at the start of each sequence with leaves (C B, ...), and
        sums over the episodes that ended.
    """
    config = setup.config

    def step(state: TrainState, _: None) -> tuple[TrainState, tuple[Trajectory, Metrics]]:
        key, key_action, key_step = jax.random.split(state.key, 3)
        keys_step = jax.random.split(key_step, state.start.shape[0])
        memory, output = policy(state.memory, state.observation, state.start)
        action = sample_action(key_action, output.logits, setup.sizes)
        command = action if setup.has_branches else action[..., 0]
        observation, env_state, reward, terminated, truncated, info = step_envs(
            keys_step, state.env_state, command, env_params
        )
        is_truncated = truncated & ~terminated

        def final_observation() -> Observation:
            # Recompute the step to get `final_observation`, which the rollout does not store. If it were read from the
            # first call, every step would draw it.
            return step_envs(jax.random.clone(keys_step), state.env_state, command, env_params)[5]["final_observation"]

        final_value = _value_where(setup, policy, memory, final_observation, is_truncated)
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
            ground_truth=jax.vmap(setup.ground_truth_fn)(state.env_state) if setup.ground_truth_fn else (),
            level=info["level_index"] if config.curriculum == "plr" else (),
        )
        ended = terminated | truncated
        sums = _episode_sums(info, returns_of(info, state.env_state, env_params), ended)
        state = state._replace(env_state=env_state, observation=observation, start=ended, memory=memory, key=key)
        state = state._replace(curriculum=curriculum.counted(state.curriculum, ended, success_of(info)))
        return state, (taken, sums)

    step_envs = jax.vmap(setup.env.step, (0, 0, 0, setup.params_axes))
    returns_of = jax.vmap(setup.env.normalized_return, (0, 0, setup.params_axes))
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
    """Run one step in B environments; return the recurrent state and the outputs with leading axis B."""
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
    setup: Setup, policy: Callable[..., Any], memory: State, observe: Callable[[], Observation], is_truncated: jax.Array
) -> jax.Array:
    """Return the value of `observe()` where `is_truncated` holds, else 0; the network runs only if any holds."""
    if not setup.config.bootstrap_time_limits:
        return jnp.zeros(is_truncated.shape, jnp.float32)
    is_any = is_truncated.any()
    if setup.vmap_axis:
        # All seeds share one predicate: with one per seed, vmap would always compute both branches.
        is_any = lax.psum(is_any.astype(jnp.int32), setup.vmap_axis) > 0

    def value() -> jax.Array:
        _, output = policy(memory, observe(), jnp.zeros_like(is_truncated))
        return jnp.where(is_truncated, output.value, 0.0)

    return lax.cond(is_any, value, lambda: jnp.zeros(is_truncated.shape, jnp.float32))


def _episode_sums(info: dict[str, jax.Array], normalized_return: jax.Array, ended: jax.Array) -> Metrics:
    values = {
        "return": info["episode_return"],
        "length": info["episode_length"],
        "success": success_of(info),
        "normalized_return": normalized_return,
        "episodes": ended,
    }
    return {name: jnp.where(ended, value.astype(jnp.float32), 0.0).sum() for name, value in values.items()}


def estimate(setup: Setup, state: TrainState, rollout: Trajectory, memory: State) -> Batch:
    """Compute the advantages and value targets of a rollout that led to `state`."""
    config = setup.config
    _, output = act(setup, state.params, state.memory, state.observation, state.start)
    next_value = jnp.concatenate([rollout.value[1:], output.value[None]])
    next_value = jnp.where(rollout.truncated, rollout.final_value, next_value)
    next_value = jnp.where(rollout.terminated, 0.0, next_value)
    ended = rollout.terminated | rollout.truncated
    advantage = gae(rollout.reward, rollout.value, next_value, ended, gamma=config.gamma, gae_lambda=config.gae_lambda)
    return Batch(rollout, memory, advantage, advantage + rollout.value)


def update(setup: Setup, state: TrainState, batch: Batch, key: jax.Array, rates: Rates) -> tuple[TrainState, Metrics]:
    """Run `epochs` passes over the batch in minibatches of whole sequences, shuffled for each pass."""
    config = setup.config
    fraction = state.update.astype(jnp.float32) * (config.batch_steps / config.decay_length)
    learning_rate, entropy_coef = rates.learning_rate.at(fraction), rates.entropy_coef.at(fraction)

    def step(learned: tuple[Any, optax.OptState], chosen: jax.Array) -> tuple[tuple[Any, optax.OptState], Metrics]:
        params, optimizer = learned
        minibatch = take_sequences(batch, chosen, config.sequence_steps)
        grads, metrics = jax.grad(minibatch_loss, argnums=1, has_aux=True)(
            setup, params, minibatch, entropy_coef, rates.clip
        )
        grads = _mean(setup, grads)
        metrics["grad_norm"] = optax.tree.norm(grads)
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to the power of its integer count
            changes, optimizer = setup.optimizer.update(grads, optimizer, params)
        params = jax.tree.map(lambda param, change: param - learning_rate * change, params, changes)
        return (params, optimizer), metrics

    num_sequences = batch.advantage.size // config.sequence_steps
    keys = jax.random.split(key, config.epochs)
    chosen = jax.vmap(lambda key: jax.random.permutation(key, num_sequences))(keys)
    chosen = chosen.reshape(config.epochs * config.minibatches, -1)
    (params, optimizer), metrics = lax.scan(step, (state.params, state.optimizer), chosen)
    metrics = _mean(setup, jax.tree.map(lambda leaf: leaf.mean(axis=0), metrics))
    metrics |= {"learning_rate": learning_rate, "entropy_coef": entropy_coef}
    return state._replace(params=params, optimizer=optimizer, update=state.update + 1), metrics


def take_sequences(batch: Batch, chosen: jax.Array, steps: int) -> Batch:
    """Gather some sequences of a batch. The minibatch loop does this, so that the rollout is never copied as a whole.

    Args:
        batch: rollout of T steps in B environments.
        chosen: index c B + b for the c-th sequence of environment b, (M,).
        steps: length of one sequence, N = T / C.

    Returns:
        Recurrent-state leaves (M, ...), all others (N, M, ...).
    """
    memory = jax.tree.map(lambda leaf: jnp.take(leaf, chosen, axis=0), batch.memory)
    num_steps, num_envs = batch.advantage.shape

    def take(leaf: jax.Array) -> jax.Array:
        if steps == num_steps:
            return jnp.take(leaf, chosen, axis=1)
        sequence, env_index = jnp.divmod(chosen, num_envs)
        step = jnp.arange(steps, dtype=chosen.dtype)[:, None]
        return leaf[sequence[None] * steps + step, env_index[None]]

    return jax.tree.map(take, batch._replace(memory=()))._replace(memory=memory)


def minibatch_loss(
    setup: Setup, params: Any, batch: Batch, entropy_coef: jax.Array, clip: jax.Array
) -> tuple[jax.Array, Metrics]:
    """Return the PPO loss of a minibatch and its parts."""
    config, rollout = setup.config, batch.rollout
    # Sequences are shuffled, so the first of them are an unbiased sample.
    drawn = config.reconstruction_share * rollout.start.shape[1]
    reconstruct = max(1, round(drawn)) if config.reconstruction > 0 else 0
    _, output = _apply(setup, params, batch.memory, rollout.observation, rollout.start, reconstruct=reconstruct)
    advantage = batch.advantage
    if config.normalize_advantage:
        advantage = normalize(advantage, lambda values: _mean(setup, values.mean()))
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
        frame = first_frame(without_symbols(rollout.observation, setup.network.symbols), batch_dims=2)
        metrics["reconstruction_loss"] = reconstruction_loss(output.reconstruction, frame[:, :reconstruct])
        loss = loss + config.reconstruction * metrics["reconstruction_loss"]
    if setup.ground_truth_fn:
        metrics["ground_truth_loss"] = ((output.ground_truth - rollout.ground_truth) ** 2).mean()
        loss = loss + config.ground_truth_head * metrics["ground_truth_loss"]
    metrics["loss"] = loss
    return loss, metrics
