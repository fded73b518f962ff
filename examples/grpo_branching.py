"""GRPO that compares the ways in which one episode can go on: `python examples/grpo_branching.py --updates 100`.

    one episode of a level  --some turns-->  a session  --fork-->  a group of copies, each played to the end

GRPO compares episodes of one level from the first turn on. Here, an episode is played to a random turn, and the copies
of its session form the group. The advantage of a reply then does not depend on the turns before, and the model also
learns from states that are far from the start. The model, its warm start and the gradient step are those of
`baselines.grpo`. The example needs `pip install -e ".[baselines]"` in a checkout.
"""

import argparse
import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from baselines.grpo.learner import group_advantages
from baselines.grpo.play import Chain, ModelWriter, RandomWriter, Writer, discounted
from baselines.grpo.settings import Settings
from baselines.grpo.tokens import Tokenizer
from baselines.grpo.train import Work, evaluate_held_out, learn, sizes_of, warm_up

SHARE_BEFORE = 1 / 3
"""Largest share of the turns of an episode that is played before the fork."""


def start_episodes(chain: Chain, seeds: Sequence[int], turns: np.ndarray, write: Writer) -> dict[str, str]:
    """Play an episode of each seed for a number of turns; return the sessions that have not ended, and their texts."""
    openings = chain.pool.open_many(chain.settings.env, seeds, chain.settings.session_options)
    texts = {opening.id: opening.text for opening in openings}
    left = dict(zip(texts, turns.tolist(), strict=True))
    while any(left.values()):
        playing = [session_id for session_id, number in left.items() if number]
        results = chain.pool.step(playing, write([texts[session_id] for session_id in playing]))
        for session_id, result in zip(playing, results, strict=True):
            texts[session_id] = result.text
            left[session_id] -= 1
            if result.terminated or result.truncated:
                chain.pool.close([session_id])
                del texts[session_id], left[session_id]
    return texts


def play_on(chain: Chain, texts: dict[str, str], write: Writer) -> tuple[np.ndarray, np.ndarray]:
    """Play sessions to the end and close them; return the return of each session, and the session of each turn."""
    ids = list(texts)
    playing, order, rewards = list(range(len(ids))), list[int](), list[float]()
    while playing:
        results = chain.pool.step([ids[row] for row in playing], write([texts[ids[row]] for row in playing]))
        order += playing
        rewards += [result.reward for result in results]
        texts |= {ids[row]: result.text for row, result in zip(playing, results, strict=True)}
        ended = [result.terminated or result.truncated for result in results]
        playing = [row for row, has_ended in zip(playing, ended, strict=True) if not has_ended]
    chain.pool.close(ids)
    return discounted(rewards, order, len(ids), chain.settings.gamma)[0], np.asarray(order)


def branched(chain: Chain, texts: dict[str, str]) -> dict[str, str]:
    """Return the copies of sessions with their texts, group by group, and close the sessions."""
    copies = dict[str, str]()
    for session_id, text in texts.items():
        copies |= dict.fromkeys(chain.pool.fork(session_id, chain.settings.group_size, reseed=True), text)
        chain.pool.close([session_id])
    return copies


def train(settings: Settings) -> tuple[float, float]:
    """Train a model; return its success on held-out levels after the warm start and at the end."""
    chain = Chain.of(
        dataclasses.replace(settings, groups=settings.groups + 1)
    )  # room for the episodes beside the copies
    training, held_out = chain.levels()
    start = chain.play(training[: settings.groups].tolist(), RandomWriter(settings.replies, settings.seed))
    tokenizer = Tokenizer.of([*start.contexts, *settings.replies])
    sizes = sizes_of(settings, tokenizer, start.contexts)
    work = Work(chain, tokenizer, sizes, training, held_out, folder=None, begin=0.0)  # no run folder is written
    state = warm_up(work, start)
    first = evaluate_held_out(work, state.params, held_out)["success"]
    key = jax.random.key(settings.seed)
    for update in range(settings.updates):
        generator = np.random.default_rng((settings.seed, update))
        key, key_before, key_after = jax.random.split(key, 3)
        before, after = (
            ModelWriter(sizes, tokenizer, state.params, key, settings.sample_batch) for key in (key_before, key_after)
        )
        seeds = training[generator.integers(len(training), size=settings.groups)].tolist()
        turns = generator.integers(int(SHARE_BEFORE * settings.max_turns) + 1, size=settings.groups)
        copies = branched(chain, start_episodes(chain, seeds, turns, before))
        if not copies:
            continue  # all episodes ended before their turn
        returns, order = play_on(chain, copies, after)
        advantages = group_advantages(returns, settings.group_size)[order]
        state, _ = learn(settings, sizes, state, generator, after.tokens, advantages)
        print(f"update {update + 1}: {len(returns) // settings.group_size} groups, mean return {returns.mean():.3f}")
    return first, evaluate_held_out(work, state.params, held_out)["success"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    first, last = train(Settings(updates=arguments.updates, seed=arguments.seed))
    print(f"success on held-out levels: {first:.3f} after the warm start, {last:.3f} at the end")


if __name__ == "__main__":
    main()
