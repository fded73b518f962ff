"""GRPO of a language model: tokens, the model, the learner, and a run on a lake of 2 × 2.

seed 0: group of two episodes | seed 1: group of two episodes     an update of four sessions
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines import runs
from baselines.errors import ConfigError, RunError
from baselines.grpo import command, train
from baselines.grpo.learner import TurnBatch, group_advantages, improve, initial_state, policy_loss, text_advantages
from baselines.grpo.model import Sizes, init, log_probabilities, sample
from baselines.grpo.play import Chain, RandomWriter, discounted, prompts_of
from baselines.grpo.settings import Settings, read_settings
from baselines.grpo.tokens import END, PAD, Tokenizer

LAKE = "You moved up. Now at row 0, col 10 (step 1).\nP F H\nF F G\nWhat is your next move?"
REPLY = "<answer>Up</answer>"
SIZES = Sizes(vocabulary=12, width=8, layers=2, heads=2, prompt=5, reply=4)
TINY = Settings(
    options=("dialect=ragen", "size=2"),
    max_turns=3,
    train_levels=3,
    held_out_levels=4,
    new_openings=False,
    width=8,
    layers=1,
    heads=2,
    warm_updates=20,
    warm_batch=16,
    groups=2,
    group_size=2,
    minibatch=8,
    sample_batch=4,
    learning_rate=2e-2,
    updates=2,
    minutes=0,
    eval_updates=1,
    eval_levels=4,
    checkpoint_updates=1,
)


_init, _sample, _read = (jax.jit(function, static_argnums=0) for function in (init, sample, log_probabilities))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.of([LAKE, REPLY])


@given(st.text())
def test_every_text_comes_back_whole(text: str) -> None:
    tokenizer = Tokenizer.of([LAKE])
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_known_texts_need_no_bytes_and_unknown_words_do(tokenizer: Tokenizer) -> None:
    assert min(tokenizer.encode(LAKE)) >= 258
    assert tokenizer.encode("P snow")[1:] == [2 + byte for byte in b" snow"]


def test_each_cell_of_a_board_is_one_token(tokenizer: Tokenizer) -> None:
    boards = Tokenizer.of(["__P\nOG_\n"])
    assert len(boards.encode("P__\n_OG\n")) == 8
    assert len(tokenizer.encode("P F G\nF F F\n")) == len(tokenizer.encode("P F H\nF F G\n"))


def test_text_ends_where_a_reply_ends(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([*tokenizer.encode(REPLY), END, *tokenizer.encode("P"), PAD]) == REPLY


def test_contexts_are_cut_and_padded_at_the_left(tokenizer: Tokenizer) -> None:
    prompts = prompts_of(tokenizer, ["P F H", "F G", ""], 2)
    assert tokenizer.decode(prompts[0].tolist()) == " F H"
    assert tokenizer.decode(prompts[1].tolist()) == "F G"
    assert prompts[2].tolist() == [PAD, PAD]
    assert prompts_of(tokenizer, ["F G"], 3)[0, 0] == PAD


@pytest.fixture(scope="module")
def written() -> tuple[dict, jax.Array, jax.Array, jax.Array]:
    """Return a model, four prompts, and its replies with their log-probabilities."""
    params = _init(SIZES, jax.random.key(0))
    prompts = jnp.asarray([[0, 0, 5, 6, 7], [3, 4, 5, 6, 7], [0, 0, 0, 0, 9], [0, 2, 2, 2, 2]], jnp.int32)
    # The head starts near the uniform distribution; larger weights make it choose.
    params["head"]["kernel"] = params["head"]["kernel"] * 100.0
    replies, log_probs = _sample(SIZES, params, prompts, jax.random.key(1), jnp.float32(1.0))
    return params, prompts, replies, log_probs


def test_writing_with_a_cache_agrees_with_reading_all_at_once(written: tuple) -> None:
    params, prompts, replies, log_probs = written
    every = _read(SIZES, params, prompts, replies)
    expected = np.take_along_axis(np.asarray(every), np.asarray(replies)[..., None], axis=-1)[..., 0]
    own = np.asarray(replies) != PAD
    np.testing.assert_allclose(np.asarray(log_probs)[own], expected[own], rtol=1e-4, atol=1e-4)


def test_what_stands_behind_a_token_does_not_change_it(written: tuple) -> None:
    params, prompts, replies, _ = written
    other = replies.at[:, 2:].set(11)
    before, after = (_read(SIZES, params, prompts, tokens) for tokens in (replies, other))
    np.testing.assert_allclose(before[:, :3], after[:, :3], rtol=1e-5, atol=1e-5)
    assert not np.allclose(before[:, 3], after[:, 3])


def test_advantages_are_distances_from_the_mean_of_a_group_in_its_deviations() -> None:
    advantages = group_advantages(np.asarray([1.0, 0.0, 0.0, 1.0, 0.5, 0.5, 0.5, 0.5, 4.0, 0.0, 0.0, 0.0]), 4)
    assert advantages[:8].tolist() == [1.0, -1.0, -1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(advantages[8:], [3**0.5, *[-(3**-0.5)] * 3], rtol=1e-6)


def test_turns_are_compared_with_those_of_their_group_that_answered_the_same_text() -> None:
    followed = np.asarray([3.0, 1.0, 0.0, 0.0, 1.0, 1.0, 2.0])
    group = np.asarray([0, 0, 0, 0, 1, 1, 0])
    advantages = text_advantages(followed, group, ["a", "a", "b", "b", "a", "a", "c"])
    # Turns of one text are 1, -1 from their mean, the others 0: the root mean square of those that are not 0 is 1.
    assert advantages.tolist() == [1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_what_follows_a_turn_is_discounted_from_it_on() -> None:
    # Episode 0 has rewards 0, 0, 1; episode 1 has 2, 4.
    returns, followed = discounted([0.0, 2.0, 0.0, 4.0, 1.0], [0, 1, 0, 1, 0], 2, 0.5)
    assert returns.tolist() == [0.25, 4.0]
    assert followed.tolist() == [0.25, 4.0, 0.5, 4.0, 1.0]


def test_the_loss_is_the_clipped_gain_of_own_tokens() -> None:
    replies = jnp.asarray([[5, END, PAD], [6, 7, END]], jnp.int32)
    batch = TurnBatch(None, replies, jnp.zeros((2, 3)), jnp.asarray([2.0, -1.0]))
    ratios = jnp.asarray([[1.5, 1.0, 9.0], [0.5, 1.0, 1.5]])
    loss, clipped = policy_loss(jnp.log(ratios), batch, 0.2, 0.28)
    # Gains of the five tokens: min(1.5, 1.28) 2, 1 2, max(0.5, 0.8) (-1), 1 (-1), 1.5 (-1).
    assert loss == pytest.approx(-(2.56 + 2.0 - 0.8 - 1.0 - 1.5) / 5)
    assert clipped == pytest.approx(2 / 5)


def test_nothing_is_learned_from_what_stands_behind_the_end() -> None:
    replies = jnp.asarray([[5, END, PAD, PAD]], jnp.int32)
    batch = TurnBatch(None, replies, jnp.zeros((1, 4)), jnp.ones(1))
    slope = jax.grad(lambda log_probs: policy_loss(log_probs, batch, 0.2, 0.2)[0])(jnp.zeros((1, 4)))
    assert slope[0].tolist() == [-0.5, -0.5, 0.0, 0.0]


@pytest.fixture(scope="module")
def chain() -> Chain:
    return Chain.of(TINY)


@pytest.fixture(scope="module")
def sizes(chain: Chain) -> Sizes:
    """Return the sizes of the runs below, so that the step is compiled once."""
    seeds = chain.levels()[0][: chain.pool.capacity].tolist()
    start = chain.play(seeds, RandomWriter(TINY.replies, TINY.seed))
    return train.sizes_of(TINY, Tokenizer.of([*start.contexts, *TINY.replies]), start.contexts)


@pytest.mark.slow
def test_a_step_makes_good_replies_likelier(sizes: Sizes) -> None:
    state = initial_state(TINY, sizes, jax.random.key(0))
    prompts = np.full((TINY.minibatch, sizes.prompt), 9, np.int32)
    replies = np.full((TINY.minibatch, sizes.reply), PAD, np.int32)
    replies[:, :2] = [6, END]
    replies[::2, 0] = 5
    before = _read(sizes, state.params, prompts, replies)
    log_probs = np.take_along_axis(np.asarray(before), replies[..., None], axis=-1)[..., 0]
    batch = TurnBatch(prompts, replies, log_probs, np.where(replies[:, 0] == 5, 1.0, -1.0).astype(np.float32))
    for _ in range(2):  # at the first one the learning rate is 0
        state, metrics = improve(TINY, sizes, state, batch)
    after = _read(sizes, state.params, prompts, replies)
    assert after[0, 0, 5] > before[0, 0, 5]
    assert after[0, 0, 6] < before[0, 0, 6]
    assert metrics["kl"] == 0.0  # of the first step, from where it began


@pytest.fixture
def run(chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a function that runs the command with other settings, and returns the folder."""

    def go(name: str, *, resume: bool = False, **changed: object) -> Path:
        settings = dataclasses.replace(TINY, **changed)
        monkeypatch.setattr(Chain, "of", lambda settings: dataclasses.replace(chain, settings=settings))
        line = train.train(settings, runs.RunFlags(name, tmp_path, resume))
        assert line.startswith("held-out success ")
        assert line.endswith(f"-> {tmp_path / name}")
        return tmp_path / name

    return go


def learned(path: Path) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.mark.slow
def test_a_run_that_was_resumed_learned_what_one_did_at_once(run: Callable[..., Path]) -> None:
    whole = run("whole")
    parts = run("parts", updates=1)
    assert len(learned(parts)) == 2
    run("parts", updates=2, resume=True)
    assert learned(parts) == learned(whole)
    assert read_settings(parts) == TINY
    start = json.loads((whole / "start.json").read_text())
    assert learned(whole)[0]["held_out"] == start["warm_start"]["success"]
    for name in ("curve.png", "vocabulary.json", "transcript_before.txt", "transcript_after.txt", "evaluation.json"):
        assert (whole / name).stat().st_size
    with pytest.raises(RunError, match="got other values of kl"):
        run("parts", kl=0.5, resume=True)


def test_a_chat_holds_instructions_texts_and_replies(chain: Chain) -> None:
    chat = dataclasses.replace(chain, settings=dataclasses.replace(TINY, context="chat"))
    up = TINY.replies[3]
    episodes = chat.play([5], lambda contexts: [up] * len(contexts))
    first, *_, last = episodes.contexts
    assert first.startswith(chain.system_prompt)
    assert last.startswith(f"{first}\n{up}\n\n")


def test_an_invalid_reply_is_counted_and_takes_a_turn(chain: Chain) -> None:
    episodes = chain.play([0, 1], lambda contexts: ["what?"] * len(contexts))
    assert episodes.invalid_replies.tolist() == episodes.lengths.tolist() == [TINY.max_turns] * 2
    assert not episodes.is_solved.any()


def test_replies_that_are_given_twice_are_rejected() -> None:
    with pytest.raises(
        ConfigError, match=r"^expected --replies once, got it twice\. Give all its values after one --replies\.$"
    ):
        command.parse(["--replies", "a", "b", "--replies", "c"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"width": 10, "heads": 4}, "expected a multiple of heads 4, got 10"),
        ({"group_size": 1}, "group_size: expected at least 2, got 1"),
        ({"gamma": 1.5}, "gamma: expected a number from 0 to 1, got 1.5"),
        ({"replies": ()}, "replies: expected at least one"),
        ({"seed": 2**31}, "seed: expected a number from 0 to 2147483647, got 2147483648"),
        ({"options": ("levels=3",)}, "expected no option 'levels', got one. Use train_levels and held_out_levels"),
    ],
)
def test_settings_that_cannot_be_used_are_rejected(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(TINY, **changed)


def test_no_level_is_trained_on_that_begins_as_a_scored_one_does(chain: Chain) -> None:
    settings = dataclasses.replace(TINY, train_levels=60, held_out_levels=3, new_openings=True)
    split = dataclasses.replace(chain, settings=settings)
    training, evaluated = (split.openings(seeds.tolist()) for seeds in split.levels())
    assert len(evaluated) == 3
    assert not set(training) & set(evaluated)
    assert len(training) > 30  # most levels are left


def test_levels_that_all_begin_alike_cannot_be_told_apart_by_their_first_texts(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Chain, "openings", lambda _, seeds: ["the same"] * len(seeds))
    alike = dataclasses.replace(chain, settings=dataclasses.replace(TINY, new_openings=True))
    with pytest.raises(ConfigError, match=r"one first text in 8 is held out\. .*--no-new-openings"):
        alike.levels()


def test_a_form_that_the_game_rejects_is_rejected(chain: Chain) -> None:
    lost = dataclasses.replace(chain, settings=dataclasses.replace(TINY, replies=("somewhere",)))
    with pytest.raises(ConfigError, match="expected valid actions, got 'somewhere'"):
        lost.check_form()


def test_a_reply_longer_than_the_model_may_write_is_rejected(tokenizer: Tokenizer) -> None:
    with pytest.raises(ConfigError, match="--reply-tokens: expected at least 8, got 4"):
        train.sizes_of(dataclasses.replace(TINY, reply_tokens=4, replies=(REPLY,)), tokenizer, [LAKE])


def test_rejected_settings_leave_no_run_that_resume_would_find(run: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--reply-tokens: expected at least"):
        run("rejected", reply_tokens=2)
    assert not (tmp_path / "rejected").exists()


def test_another_game_starts_without_the_options_of_the_lake() -> None:
    argv = ["--scale", "cpu", "--env", "TextCraft-v0", "--replies", "Action: inventory"]
    assert command.parse(argv).settings.options == ()
    assert command.parse(argv).settings.replies == ("Action: inventory",)
    assert command.parse(["--scale", "cpu"]).settings.options == ("dialect=ragen",)
