"""Train a pretrained language model by GRPO in chats about Frozen Lake.

A warm start on random valid replies teaches the format of a reply, and GRPO the rest, as for a model from scratch. All
episodes of an update are played in one jitted program. The run is written to runs/NAME; `--resume` continues from the
newest checkpoint.
"""

import dataclasses
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from baselines.errors import ConfigError, RunError
from baselines.grpo import folder as folders
from baselines.grpo.chat import Chat, Lakes, prepare
from baselines.grpo.folder import GrpoFolder
from baselines.grpo.learner import (
    LearnerState,
    TurnBatch,
    group_advantages,
    imitate,
    improve,
    state_of,
    text_advantages,
)
from baselines.grpo.play import Chain
from baselines.grpo.rollout import ChatEpisodes, play
from baselines.grpo.settings import Settings, differences, read_settings
from baselines.grpo.tokens import PAD
from baselines.language_model import load, load_tokenizer
from baselines.runs import Row, RunFlags, reject_changes

_TRANSCRIPTS = 3
# Purposes of keys and NumPy generators, which are combined with the seed of the run.
_WARM, _ROLLOUT, _EVALUATE, _ORDER = range(4)


@dataclasses.dataclass(frozen=True)
class Chats:
    """Objects of a run.

    Attributes:
        settings: Settings of the run.
        chat: Constants of the model and its chats.
        env: Frozen Lake.
        env_params: Its parameters.
        lakes: Training levels, then held-out levels.
        tokenizer: Tokenizer of the model.
        num_training: Number of training levels.
    """

    settings: Settings
    chat: Chat
    env: Any
    env_params: Any
    lakes: Lakes
    tokenizer: Any
    num_training: int

    @classmethod
    def of(cls, settings: Settings) -> tuple["Chats", Any]:
        """Load a model and its levels; return the objects of a run and the parameters, float32.

        Raises:
            ConfigError: if the model, its tokenizer or a setting is invalid.
            UnknownIdError, OptionError: if the environment or its options are invalid.
        """
        if settings.minibatch < settings.max_turns:
            raise ConfigError(
                f"--minibatch: expected at least --max-turns {settings.max_turns}, got {settings.minibatch}"
            )
        training, held_out = Chain.of(settings).levels()
        config, params = load(settings.model)
        tokenizer = load_tokenizer(settings.model)
        chat, env, env_params, lakes = prepare(settings, config, tokenizer, np.concatenate([training, held_out]))
        return cls(settings, chat, env, env_params, lakes, tokenizer, len(training)), params

    def key(self, purpose: int, number: int = 0) -> jax.Array:
        """Return the key of a purpose."""
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(self.settings.seed), purpose), number)

    def play(self, params: Any, indices: np.ndarray, key: jax.Array, temperature: float = 1.0) -> ChatEpisodes:
        """Play an episode on each level, in batches of one size; without parameters by random replies."""
        batch = self.settings.sessions
        filled = np.resize(indices, -(-len(indices) // batch) * batch).astype(np.int32)
        parts = [
            play(
                self.chat,
                self.env,
                params,
                self.env_params,
                self.lakes,
                jnp.asarray(filled[start : start + batch]),
                jax.random.fold_in(key, start),
                jnp.float32(temperature),
            )
            for start in range(0, len(filled), batch)
        ]
        whole = [np.concatenate(leaves)[: len(indices)] for leaves in zip(*map(jax.device_get, parts), strict=True)]
        return ChatEpisodes(*whole)

    def held_out(self, params: Any, count: int, temperature: float = 1.0) -> ChatEpisodes:
        """Play on the first held-out levels."""
        indices = self.num_training + np.arange(count)
        return self.play(params, indices, self.key(_EVALUATE), temperature)

    def transcript(self, episodes: ChatEpisodes, row: int) -> str:
        """Return a chat, with the special tokens of the template."""
        replies = np.where(episodes.replies[row] == self.chat.end, PAD, episodes.replies[row])  # the next piece has it
        tokens = np.concatenate([episodes.pieces[row], replies], axis=1)[episodes.is_turn[row]]
        return self.tokenizer.decode([*self.chat.prefix, *tokens[tokens != PAD].tolist()])


def tally(episodes: ChatEpisodes) -> dict[str, float]:
    """Return the success, the mean number of turns, and the share of invalid replies."""
    return {
        "success": float(episodes.is_solved.mean()),
        "length": float(episodes.is_turn.sum(axis=1).mean()),
        "invalid_replies": float(episodes.is_invalid.sum() / episodes.is_turn.sum()),
        "reply_tokens": float((episodes.replies != PAD).sum() / episodes.is_turn.sum()),
    }


def advantages_of(settings: Settings, episodes: ChatEpisodes) -> tuple[np.ndarray, np.ndarray]:
    """Return the advantage of each turn, float32 (E, T), and the return of each episode, float64 (E,).

    With credit `text`, turns of one group are compared that show the player in the same cell.
    """
    followed = np.asarray(episodes.rewards, np.float64)
    for turn in reversed(range(followed.shape[1] - 1)):
        followed[:, turn] += settings.gamma * followed[:, turn + 1]
    returns = followed[:, 0]
    advantages = np.zeros(followed.shape, np.float32)
    is_turn = episodes.is_turn
    if settings.credit == "episode":
        advantages[:] = group_advantages(returns, settings.group_size)[:, None]
    else:
        group = np.broadcast_to(np.arange(len(returns))[:, None] // settings.group_size, is_turn.shape)[is_turn]
        advantages[is_turn] = text_advantages(
            followed[is_turn], group, [str(place) for place in episodes.places[is_turn]]
        )
    return np.where(is_turn, advantages, 0.0).astype(np.float32), returns


def learn(
    chats: Chats, state: LearnerState, generator: np.random.Generator, episodes: ChatEpisodes, advantages: np.ndarray
) -> tuple[LearnerState, dict[str, float]]:
    """Return the state after the gradient steps of one update, and the means of their metrics, if there are any.

    A minibatch has whole episodes; the last one is filled with empty episodes, which the loss ignores. Episodes without
    an advantage are left out, unless there is a KL penalty.
    """
    settings = chats.settings
    telling = np.arange(len(advantages)) if settings.kl else np.flatnonzero(advantages.any(axis=1))
    size = settings.minibatch // settings.max_turns
    columns = (episodes.pieces, episodes.replies, episodes.log_probabilities, advantages)
    steps = list[dict[str, jax.Array]]()
    for _ in range(settings.epochs):
        order = generator.permutation(telling)
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            batch = TurnBatch(*(_turns_of(column[chosen], size) for column in columns))
            state, metrics = improve(settings, chats.chat, state, batch)
            steps.append(metrics)
    gathered = jax.device_get(steps)
    return state, {
        name: float(np.mean([step[name] for step in gathered])) for name in (gathered[0] if gathered else ())
    }


def _turns_of(column: np.ndarray, size: int) -> np.ndarray:
    """Return values of at most `size` episodes, (E, T, ...), as those of turns, (size * T, ...), filled with zeros."""
    filled = np.pad(column, [(0, size - len(column))] + [(0, 0)] * (column.ndim - 1))
    return filled.reshape(-1, *column.shape[2:])


def warm_up(chats: Chats, params: Any) -> LearnerState:
    """Return the state after imitating random replies, which are valid but ignore the lake."""
    settings = chats.settings
    generator = np.random.default_rng((settings.seed, _WARM))
    size = max(1, settings.warm_batch // settings.max_turns)
    state = state_of(settings, params)
    if settings.warm_updates:
        levels = generator.integers(chats.num_training, size=settings.sessions)
        episodes = chats.play(None, levels, chats.key(_WARM))
        for _ in range(settings.warm_updates):
            chosen = generator.integers(len(levels), size=size)
            pieces, replies = (_turns_of(column[chosen], size) for column in (episodes.pieces, episodes.replies))
            state, _ = imitate(settings, chats.chat, state, pieces, replies)
    return state._replace(reference=jax.tree.map(jnp.copy, state.params))


def update(chats: Chats, state: LearnerState, done: int) -> tuple[LearnerState, Row]:
    """Play the groups of one update, and learn from their turns.

    Raises:
        RunError: if the loss is not finite.
    """
    settings = chats.settings
    generator = np.random.default_rng((settings.seed, _ORDER, done))
    levels = generator.integers(chats.num_training, size=settings.groups)
    begin = time.monotonic()
    episodes = chats.play(state.params, np.repeat(levels, settings.group_size), chats.key(_ROLLOUT, done))
    seconds = time.monotonic() - begin
    advantages, returns = advantages_of(settings, episodes)
    state, metrics = learn(chats, state, generator, episodes, advantages)
    if metrics and not np.isfinite([metrics["loss"], metrics["grad_norm"]]).all():
        raise RunError(
            f"expected a finite loss and gradient norm, got {metrics['loss']} and {metrics['grad_norm']} at update "
            f"{done + 1}. Start a new run with a lower --learning-rate or --max-grad-norm."
        )
    groups = returns.reshape(-1, settings.group_size)
    empty = dict.fromkeys(("loss", "entropy", "kl", "clipped", "grad_norm"), 0.0)
    row: Row = {
        **tally(episodes),
        "return": float(returns.mean()),
        "frac_groups_nonzero_std": float((np.ptp(groups, axis=1) > 0).mean()),
        "frac_turns_nonzero_advantage": float((advantages != 0).sum() / episodes.is_turn.sum()),
        "rollout_seconds": round(seconds, 3),
    }
    return state, {**row, **empty, **metrics, "turns": int(episodes.is_turn.sum()), "held_out": None}


def train(settings: Settings, run_flags: RunFlags) -> str:
    """Train a model, evaluate it, and write transcripts; return a line with the success on held-out levels.

    Raises:
        RunError: if the folder is unusable, a checkpoint does not match, or the loss is not finite.
        ConfigError, UnknownIdError, OptionError: if a setting is invalid.
    """
    begin = time.monotonic()
    chats, params = Chats.of(settings)  # raises ConfigError before the folder is made
    path = run_flags.runs_dir / (
        run_flags.name or f"{settings.env}_grpo_seed{settings.seed}_{time.strftime('%Y%m%d-%H%M%S')}"
    )
    if run_flags.resume:
        reject_changes(path, differences(settings, read_settings(path)))
    with GrpoFolder(path, settings, writes=True) if run_flags.resume else GrpoFolder.create(path, settings) as folder:
        state = run_updates(chats, params, folder, begin)
        count = settings.held_out_levels
        results = {
            name: tally(chats.held_out(state.params, count, heat))
            for name, heat in (("sampled", 1.0), ("likeliest", 0.0))
        }
        seconds = time.monotonic() - begin
        clocks = {"seconds": round(seconds, 1), "cpu_seconds": round(time.process_time(), 1)}
        folder.write_json("evaluation.json", {"update": folder.last_update, **clocks, **results})
        _write_transcripts(chats, state.params, folder, "after")
        folder.draw_curve()
    tqdm.write(f"held-out success with greedy decoding: {results['likeliest']['success']:.3f}")
    return f"held-out success {results['sampled']['success']:.3f} in {seconds:.0f} s -> {path}"


def _write_transcripts(chats: Chats, params: Any, folder: GrpoFolder, when: str) -> None:
    """Play the first held-out levels and write their chats."""
    episodes = chats.held_out(params, _TRANSCRIPTS)
    heads = [f"--- held-out level {row}: {'' if ok else 'not '}solved\n" for row, ok in enumerate(episodes.is_solved)]
    texts = [f"{head}{chats.transcript(episodes, row)}\n" for row, head in enumerate(heads)]
    folder.write_text(f"transcript_{when}.txt", "\n".join(texts))


def _begin(chats: Chats, params: Any, folder: GrpoFolder, begin: float) -> tuple[LearnerState, Row]:
    """Warm up and evaluate; return the state and the first row of the log."""
    folder.truncate_log(-1)
    count = chats.settings.held_out_levels
    results = {"random": tally(chats.held_out(None, count)), "base": tally(chats.held_out(params, count))}
    _write_transcripts(chats, params, folder, "base")
    state = warm_up(chats, params)
    results["warm_start"] = tally(chats.held_out(state.params, count))
    shown = ", ".join(f"{name} {found['success']:.3f}" for name, found in results.items())
    tqdm.write(f"success on {count} held-out levels: {shown}")
    folder.write_json("start.json", results)
    _write_transcripts(chats, state.params, folder, "before")
    row: Row = {"update": 0, "turns": 0, "seconds": round(time.monotonic() - begin, 1)}
    row |= {"held_out": results["warm_start"]["success"]}
    folder.append([row])
    folder.save(state, 0)
    return state, row


def run_updates(chats: Chats, params: Any, folder: GrpoFolder, begin: float) -> LearnerState:
    """Return the state after the last update, or at the time limit.

    Raises:
        RunError: if a file cannot be written, a checkpoint does not match, or the loss is not finite.
    """
    settings, done = chats.settings, folder.last_update or 0
    if folder.last_update is None:
        state, row = _begin(chats, params, folder, begin)
    else:
        state = folder.restore(jax.eval_shape(lambda: state_of(settings, params)))
        row = folder.truncate_log(done)[-1]

    def held_out(params: Any) -> float:
        return tally(chats.held_out(params, settings.eval_levels))["success"]

    return folders.run_updates(
        folder, settings, state, row, begin, lambda state, done: update(chats, state, done), held_out
    )
