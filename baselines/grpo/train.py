"""Train a language model from scratch on a text environment.

A warm start on random valid replies teaches the format of a reply, and GRPO the rest. The run is written to runs/NAME;
`--resume` continues from the newest checkpoint.
"""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from baselines.errors import ConfigError, RunError
from baselines.grpo import folder as folders
from baselines.grpo.folder import VOCABULARY, GrpoFolder
from baselines.grpo.learner import (
    LearnerState,
    TurnBatch,
    group_advantages,
    imitate,
    improve,
    initial_state,
    text_advantages,
)
from baselines.grpo.model import Sizes
from baselines.grpo.play import Chain, ModelWriter, RandomWriter, TextEpisodes, prompts_of
from baselines.grpo.settings import Settings, differences, read_settings
from baselines.grpo.tokens import END, PAD, Tokenizer
from baselines.runs import Row, RunFlags, reject_changes

_TRANSCRIPTS = 3
# Purposes of keys and NumPy generators, which are combined with the seed of the run.
_START, _WARM, _ROLLOUT, _EVALUATE, _ORDER = range(5)


@dataclasses.dataclass(frozen=True)
class Work:
    """Objects of a run.

    Attributes:
        chain: Sessions.
        tokenizer: Tokenizer of the model.
        sizes: Sizes of the model.
        training: Training seeds, uint32 (n,).
        held_out: Held-out seeds, uint32 (held_out_levels,).
        folder: Run folder.
        begin: Start of this call, in seconds of the monotonic clock.
    """

    chain: Chain
    tokenizer: Tokenizer
    sizes: Sizes
    training: np.ndarray
    held_out: np.ndarray
    folder: GrpoFolder
    begin: float

    @property
    def settings(self) -> Settings:
        """Settings of the run."""
        return self.chain.settings

    def writer(self, params: Any, key: jax.Array, temperature: float = 1.0) -> ModelWriter:
        """Return a writer that samples the replies of a model."""
        return ModelWriter(self.sizes, self.tokenizer, params, key, self.settings.sample_batch, temperature)


def _key(settings: Settings, purpose: int, number: int = 0) -> jax.Array:
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(settings.seed), purpose), number)


def train(settings: Settings, run_flags: RunFlags) -> str:
    """Train a model, evaluate it, and write transcripts; return a line with the success on held-out levels.

    Raises:
        RunError: if the folder is unusable, a checkpoint does not match, or the loss is not finite.
        ConfigError, UnknownIdError, OptionError: if a setting is invalid.
    """
    begin = time.monotonic()
    chain = Chain.of(settings)
    training, held_out = chain.levels()
    path = run_flags.runs_dir / (
        run_flags.name or f"{settings.env}_grpo_seed{settings.seed}_{time.strftime('%Y%m%d-%H%M%S')}"
    )
    if run_flags.resume:
        reject_changes(path, differences(settings, read_settings(path)))
    # Invalid settings raise an error here, before the folder exists: `--resume` must not find a run that never began.
    start = chain.play(training[: chain.pool.capacity].tolist(), RandomWriter(settings.replies, settings.seed))
    tokenizer = Tokenizer.of([*start.contexts, *settings.replies])
    sizes = sizes_of(settings, tokenizer, start.contexts)
    with GrpoFolder(path, settings, writes=True) if run_flags.resume else GrpoFolder.create(path, settings) as folder:
        if run_flags.resume and folder.last_update is not None:
            tokenizer = folder.tokenizer()
            sizes = sizes_of(settings, tokenizer, start.contexts)
        else:
            folder.write_json(VOCABULARY, tokenizer.words)
        work = Work(chain, tokenizer, sizes, training, held_out, folder, begin)
        state = run_updates(work, start)
        results = {
            name: evaluate_held_out(work, state.params, held_out, heat)
            for name, heat in (("sampled", 1.0), ("likeliest", 0.0))
        }
        seconds = time.monotonic() - begin
        clocks = {"seconds": round(seconds, 1), "cpu_seconds": round(time.process_time(), 1)}
        folder.write_json("evaluation.json", {"update": folder.last_update, **clocks, **results})
        _write_transcripts(work, state.params, "after")
        folder.draw_curve()
    tqdm.write(f"held-out success with greedy decoding: {results['likeliest']['success']:.3f}")
    return f"held-out success {results['sampled']['success']:.3f} in {seconds:.0f} s -> {path}"


def sizes_of(settings: Settings, tokenizer: Tokenizer, contexts: Sequence[str]) -> Sizes:
    """Return the sizes of a model for contexts of the given lengths.

    Raises:
        ConfigError: if a reply of the settings is longer than `reply_tokens`.
    """
    longest = max(len(tokenizer.encode(reply)) + 1 for reply in settings.replies)
    if longest > settings.reply_tokens:
        raise ConfigError(f"--reply-tokens: expected at least {longest}, got {settings.reply_tokens}")
    prompt = min(settings.prompt_tokens, max(len(tokenizer.encode(context)) for context in contexts))
    return Sizes(tokenizer.size, settings.width, settings.layers, settings.heads, prompt, settings.reply_tokens)


def warm_up(work: Work, start: TextEpisodes) -> LearnerState:
    """Return the state after imitating random replies, which are valid but ignore the observation."""
    settings, tokenizer, sizes = work.settings, work.tokenizer, work.sizes
    prompts = prompts_of(tokenizer, start.contexts, sizes.prompt)
    replies = np.full((len(start.replies), sizes.reply), PAD, np.int32)
    for row, reply in zip(replies, start.replies, strict=True):
        tokens = [*tokenizer.encode(reply), END]
        row[: len(tokens)] = tokens
    generator = np.random.default_rng((settings.seed, _WARM))
    state = initial_state(settings, sizes, _key(settings, _START))
    for _ in range(settings.warm_updates):
        chosen = generator.integers(len(prompts), size=settings.warm_batch)
        state, _ = imitate(settings, sizes, state, prompts[chosen], replies[chosen])
    return state._replace(reference=jax.tree.map(jnp.copy, state.params))


def evaluate_held_out(work: Work, params: Any, seeds: np.ndarray, temperature: float = 1.0) -> dict[str, float]:
    """Evaluate a model on levels, one episode of each."""
    write = work.writer(params, _key(work.settings, _EVALUATE), temperature)
    return tally(work.chain.play_all(seeds.tolist(), write))


def tally(played: Sequence[TextEpisodes]) -> dict[str, float]:
    """Return the success, the mean number of turns, and the share of invalid replies."""
    is_solved, lengths, invalid_replies = (
        np.concatenate([getattr(episodes, name) for episodes in played])
        for name in ("is_solved", "lengths", "invalid_replies")
    )
    return {
        "success": float(is_solved.mean()),
        "length": float(lengths.mean()),
        "invalid_replies": float(invalid_replies.sum() / lengths.sum()),
    }


def _write_transcripts(work: Work, params: Any, when: str) -> None:
    """Play the first held-out levels and write their transcripts."""
    write = work.writer(params, _key(work.settings, _EVALUATE, 1))
    episodes = work.chain.play(work.held_out[:_TRANSCRIPTS].tolist(), write)
    heads = [
        f"--- level {seed}: {'solved' if solved else 'not solved'}\n"
        for seed, solved in zip(work.held_out, episodes.is_solved, strict=False)
    ]
    texts = [head + episodes.transcript(row) for row, head in enumerate(heads)]
    work.folder.write_text(f"transcript_{when}.txt", "\n".join(texts))


def begin_or_go_on(work: Work, start: TextEpisodes) -> tuple[LearnerState, Row]:
    """Return the state and the newest row of the log."""
    settings, folder = work.settings, work.folder
    done = folder.last_update
    if done is not None:
        template = jax.eval_shape(lambda: initial_state(settings, work.sizes, jax.random.key(0)))
        return folder.restore(template), folder.truncate_log(done)[-1]
    folder.truncate_log(-1)
    random = RandomWriter(settings.replies, settings.seed + 1)
    by_chance = tally(work.chain.play_all(work.held_out.tolist(), random))
    state = warm_up(work, start)
    results = evaluate_held_out(work, state.params, work.held_out)
    tqdm.write(
        f"{len(work.held_out)} held-out levels: success of random replies {by_chance['success']:.3f}, "
        f"of the warm start {results['success']:.3f} with {results['invalid_replies']:.0%} invalid replies"
    )
    folder.write_json("start.json", {"random": by_chance, "warm_start": results})
    _write_transcripts(work, state.params, "before")
    row: Row = {"update": 0, "turns": 0, "seconds": round(time.monotonic() - work.begin, 1)}
    row |= {"held_out": results["success"]}
    folder.append([row])
    folder.save(state, 0)
    return state, row


def run_updates(work: Work, start: TextEpisodes) -> LearnerState:
    """Return the state after the last update, or at the time limit.

    Raises:
        RunError: if a file cannot be written, a checkpoint does not match, or the loss is not finite.
    """
    settings, folder = work.settings, work.folder
    state, row = begin_or_go_on(work, start)

    def held_out(params: Any) -> float:
        return evaluate_held_out(work, params, work.held_out[: settings.eval_levels])["success"]

    return folders.run_updates(
        folder, settings, state, row, work.begin, lambda state, done: update(work, state, done), held_out
    )


def update(work: Work, state: LearnerState, done: int) -> tuple[LearnerState, Row]:
    """Play the groups of one update, and learn from the turns with an advantage.

    Raises:
        RunError: if the loss is not finite.
    """
    settings = work.settings
    generator = np.random.default_rng((settings.seed, _ORDER, done))
    levels = work.training[generator.integers(len(work.training), size=settings.groups)]
    write = work.writer(state.params, _key(settings, _ROLLOUT, done))
    episodes = work.chain.play(np.repeat(levels, settings.group_size).tolist(), write)
    if settings.credit == "episode":
        advantages = group_advantages(episodes.returns, settings.group_size)[episodes.episode]
    else:
        advantages = text_advantages(episodes.followed, episodes.episode // settings.group_size, episodes.contexts)
    state, metrics = learn(settings, work.sizes, state, generator, write.tokens, advantages)
    if metrics and not np.isfinite([metrics["loss"], metrics["grad_norm"]]).all():
        raise RunError(
            f"expected a finite loss and gradient norm, got {metrics['loss']} and {metrics['grad_norm']} at update "
            f"{done + 1}; the checkpoint of update {work.folder.last_update} is kept. "
            "Start a new run with a lower --learning-rate or --max-grad-norm."
        )
    empty = dict.fromkeys(("loss", "entropy", "kl", "clipped", "grad_norm"), 0.0)
    groups = episodes.returns.reshape(-1, settings.group_size)
    row: Row = {
        **tally([episodes]),
        "return": float(episodes.returns.mean()),
        "frac_groups_nonzero_std": float((np.ptp(groups, axis=1) > 0).mean()),
        "frac_turns_nonzero_advantage": float((advantages != 0).mean()),
    }
    return state, {**row, **empty, **metrics, "turns": len(episodes.replies), "held_out": None}


def learn(
    settings: Settings,
    sizes: Sizes,
    state: LearnerState,
    generator: np.random.Generator,
    tokens: tuple[np.ndarray, ...],
    advantages: np.ndarray,
) -> tuple[LearnerState, dict[str, float]]:
    """Return the state after the gradient steps of one update, and the means of their metrics, if there are any.

    Turns without an advantage are left out, unless there is a KL penalty. Every minibatch has the same shape: the last
    one is filled with empty replies, which the loss ignores.
    """
    telling = np.arange(len(advantages)) if settings.kl else np.flatnonzero(advantages)
    steps = list[dict[str, jax.Array]]()
    for _ in range(settings.epochs):
        order = generator.permutation(telling)
        for start in range(0, len(order), settings.minibatch):
            chosen = order[start : start + settings.minibatch]
            whole = TurnBatch(*(column[chosen] for column in (*tokens, advantages)))
            missing = settings.minibatch - len(chosen)
            batch = jax.tree.map(lambda leaf: np.pad(leaf, [(0, missing)] + [(0, 0)] * (leaf.ndim - 1)), whole)  # noqa: B023
            state, metrics = improve(settings, sizes, state, batch)
            steps.append(metrics)
    gathered = jax.device_get(steps)
    return state, {
        name: float(np.mean([step[name] for step in gathered])) for name in (gathered[0] if gathered else ())
    }
