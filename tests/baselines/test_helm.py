"""HELM: a frozen language model as memory, on Recall with frames and on a tiny random model."""

import dataclasses
import hashlib
import json
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from baselines import evaluate, helm, helm_words, ppo, train, zoo
from baselines.config import SCALES, Config
from baselines.errors import ConfigError
from baselines.game import TrainingGame
from baselines.helm import HelmParams, LanguageMemory, retrieve, with_language_memory
from baselines.language_model import ModelConfig, empty_cache, forward, initial_params
from baselines.runs import RunFolder, pack_state

MODEL = ModelConfig(vocabulary=12, width=8, layers=2, heads=2, kv_heads=1, head_dim=4, hidden=12)
CONFIG = dataclasses.replace(
    SCALES["cpu"],
    **dict(num_envs=4, num_steps=8, minibatches=2, hidden_size=8, bootstrap_time_limits=False),
    **dict(block_updates=2, checkpoint_updates=2, total_steps=128, memory="helm", memory_window=4),
)
ENTRIES = {"vector_observation", "visual_observation", "language"}


@pytest.fixture(scope="module", autouse=True)
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Replace the loader of checkpoints, which other tests check, and return the path of a file for checksums."""
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    path.write_bytes(b"tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(helm, "load", lambda _, dtype: (MODEL, initial_params(MODEL, jax.random.key(7), dtype)))
        helm.frozen_model.cache_clear()
        yield path
    helm.frozen_model.cache_clear()


@pytest.fixture(scope="module")
def config(model_file: Path) -> Config:
    return dataclasses.replace(CONFIG, memory_model=str(model_file))


@pytest.fixture(scope="module")
def game(config: Config, recall_game: Callable[..., TrainingGame]) -> TrainingGame:
    plain = recall_game(frames=True)
    env, params = with_language_memory(plain.env, plain.params, config)
    return plain._replace(env=env, params=params)


@pytest.fixture(scope="module")
def setup(config: Config, game: TrainingGame) -> ppo.Setup:
    return ppo.make_setup(config, game)


@pytest.fixture(scope="module")
def rollout(setup: ppo.Setup, game: TrainingGame) -> tuple[ppo.TrainState, ppo.Trajectory]:
    """Return the first state, and a rollout of two episodes of each environment from it."""
    state = ppo.make_init(setup)(jnp.int32(0), game.params)
    return state, jax.jit(lambda state, params: ppo.collect(setup, state, params)[1])(state, game.params)


def play(env: LanguageMemory, params: HelmParams, steps: int) -> tuple[list[dict[str, np.ndarray]], list[Any]]:
    """Return the observations and whether an episode ended before each, with the last actions as answers."""
    observation, state = jax.jit(env.reset)(jax.random.key(0), params)
    step = jax.jit(env.step)
    seen, starts = [observation], [True]
    for _ in range(steps - 1):
        observation, state, _, terminated, truncated, _ = step(jax.random.key(1), state, jnp.int32(0), params)
        seen.append(observation)
        starts.append(bool(terminated | truncated))
    return jax.tree.map(np.asarray, seen), starts


def test_the_hidden_state_is_that_of_the_model_on_the_steps_of_the_episode(game: TrainingGame) -> None:
    env, params = dataclasses.replace(game.env, empty="masked"), game.params
    seen, starts = play(env, params, 8)
    assert starts == [step % 4 == 0 for step in range(8)]
    assert all(entries.keys() == ENTRIES for entries in seen)
    frames = np.stack([entries["visual_observation"] for entries in seen])
    inputs = jax.vmap(lambda frame: env.reader(None, frame, None, params)[0])(jnp.asarray(frames))
    expected, _ = jax.jit(forward, static_argnums=0)(MODEL, params.model, inputs.reshape(2, 4, -1))
    hidden = np.stack([entries["language"] for entries in seen])
    np.testing.assert_allclose(hidden, expected.reshape(8, -1), rtol=1e-4, atol=1e-5)


def test_empty_slots_count_as_zeros_unless_they_are_masked(game: TrainingGame) -> None:
    zeros, masked = (
        play(dataclasses.replace(game.env, empty=empty), game.params, 4)[0] for empty in ("zeros", "masked")
    )
    differences = [np.abs(one["language"] - other["language"]).max() for one, other in zip(zeros, masked, strict=True)]
    assert min(differences) > 1e-6


def test_retrieval_is_a_softmax_over_cosines() -> None:
    draw = np.random.default_rng(0)
    frame = draw.integers(0, 256, (4, 4, 3), np.uint8)
    projection, embeddings = draw.standard_normal((16, 5)), draw.standard_normal((7, 5))
    norms = np.linalg.norm(embeddings, axis=-1)
    query = frame.mean(axis=-1).reshape(-1) @ projection
    logits = 3.0 * embeddings @ query / norms / np.linalg.norm(query)
    shares = np.exp(logits) / np.exp(logits).sum()
    given = [jnp.asarray(array, jnp.float32) for array in (projection, embeddings, 1 / norms)]
    np.testing.assert_allclose(retrieve(jnp.asarray(frame), *given, 3.0), shares @ embeddings, rtol=1e-4, atol=1e-5)
    nearest = embeddings[logits.argmax()]
    np.testing.assert_allclose(retrieve(jnp.asarray(frame), *given, 1e4), nearest, rtol=1e-4, atol=1e-5)


def test_learning_from_a_rollout_has_the_outputs_of_acting(
    setup: ppo.Setup, rollout: tuple[ppo.TrainState, ppo.Trajectory]
) -> None:
    state, taken = rollout
    after, output = setup.network.apply(state.params, (), taken.observation, taken.start)
    assert after == ()
    np.testing.assert_allclose(output.value, taken.value, rtol=1e-4, atol=1e-5)
    without = {**taken.observation, "language": jnp.zeros_like(taken.observation["language"])}
    assert not np.allclose(setup.network.apply(state.params, (), without, taken.start)[1].value, taken.value, atol=1e-3)


def test_the_model_is_not_in_the_state_of_the_training(setup: ppo.Setup, game: TrainingGame) -> None:
    state = jax.eval_shape(ppo.make_init(setup), jnp.int32(0), game.params)
    learned = jax.tree.leaves((state.params, state.optimizer))
    assert MODEL.vocabulary not in {size for leaf in learned for size in leaf.shape}
    assert {leaf.shape[-1] for leaf in jax.tree.leaves(state.params["params"]["memory"])} == {MODEL.width}


def test_a_checkpoint_leaves_out_the_window_and_restores_an_empty_one(
    setup: ppo.Setup, rollout: tuple[ppo.TrainState, ppo.Trajectory], tmp_path: Path
) -> None:
    state = rollout[0]
    packed = pack_state(state)
    assert {name for name in packed if "transient" in name} == set()
    with RunFolder.create(tmp_path / "run", setup.config) as folder:
        folder.save(state, 2)
        restored = folder.restore(state)
    windows = restored.env_state.transient, state.env_state.transient
    assert all(not leaf.any() for leaf in jax.tree.leaves(windows[0]))
    assert all(leaf.any() for leaf in jax.tree.leaves(windows[1]))
    chex.assert_trees_all_equal_shapes_and_dtypes(*windows)
    chex.assert_trees_all_equal(pack_state(restored), packed)


@pytest.mark.slow
def test_a_run_names_its_model_and_is_resumed_and_played(
    config: Config, game: TrainingGame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "record_video", lambda *_, **__: [])
    for module in (train, evaluate, zoo):
        monkeypatch.setattr(module, "make_game", lambda *_, **__: game)
    train.train(config, train.RunFlags("run", tmp_path))
    found = json.loads((tmp_path / "run/config.json").read_text())
    assert found["memory_model_sha256"] == hashlib.sha256(b"tiny").hexdigest()
    resumed = train.parse(["--resume", "--runs-dir", str(tmp_path)]).config
    longer = dataclasses.replace(resumed, total_steps=256, decay_steps=128)
    train.train(longer, train.RunFlags("run", tmp_path, resume=True))
    agent = zoo.read(tmp_path / "run")
    keys = jax.random.split(jax.random.key(0), 3)
    observation, _ = jax.vmap(agent.game.env.reset, (0, None))(keys, agent.game.params)
    state, action = agent.act(jax.random.key(1), agent.initial_recurrent_state(3), observation, jnp.ones(3, bool))
    assert (state, action.shape) == ((), (3,))


def test_another_model_is_rejected(config: Config, tmp_path: Path) -> None:
    run = helm.pinned(config)
    other = tmp_path / "other.gguf"
    other.write_bytes(b"other")
    with pytest.raises(ConfigError, match=f"expected the model with SHA-256 {run.memory_model_sha256}, got"):
        helm.pinned(dataclasses.replace(run, memory_model=str(other)))
    with pytest.raises(ConfigError, match=f"got random:{run.memory_model_sha256}"):
        helm.pinned(dataclasses.replace(run, memory_model=f"random:{run.memory_model}"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"memory_model": ""}, "expected --memory-model with a folder or .gguf file"),
        ({"memory_model": "nowhere"}, "expected a folder with a model or a .gguf file, got nowhere"),
    ],
)
def test_a_run_needs_a_model(config: Config, changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        helm.pinned(dataclasses.replace(config, **changes))


def test_helm_needs_a_frame(config: Config, recall_game: Callable[..., TrainingGame]) -> None:
    plain = recall_game()
    with pytest.raises(ConfigError, match="expected an observation with a frame, got none"):
        with_language_memory(plain.env, plain.params, config)


def test_a_random_model_has_other_weights_of_the_same_shapes(config: Config) -> None:
    model, weights = helm.frozen_model(config.memory_model, "float32", 0)
    control, random = helm.frozen_model(f"random:{config.memory_model}", "float32", 0)
    assert control == model
    chex.assert_trees_all_equal_shapes_and_dtypes(random, weights)
    assert (random["embedding"] != weights["embedding"]).any()


@pytest.mark.parametrize(
    ("facts", "indices", "words"),
    [
        (
            {"command": 4, "agent_tile": (1, 2), "is_red": True, "safe_tile": (0, 0), "commands": None},
            helm_words._of_mortar_mayhem,
            ["stay", "3", "B", "red"],
        ),
        (
            {"command": 9, "agent_tile": (-1, -1), "is_red": False},
            helm_words._of_mortar_mayhem,
            ["nothing", "none", "none", "safe"],
        ),
        ({"agent_tile": (6, 0), "has_cross": True}, helm_words._of_mystery_path, ["1", "G", "fall"]),
        (
            {
                **{"has_agent": False, "agent_px": (0, 0), "has_coin": (True,), "coins_px": ((24, 83),)},
                **{"has_exit": True, "exit_px": (11, 12)},
            },
            helm_words._of_searing_spotlights,
            ["none", "none", "7", "C", "2", "A"],
        ),
    ],
)
def test_the_words_of_a_frame(facts: dict[str, Any], indices: Callable[..., jax.Array], words: list[str]) -> None:
    arrays = {name: None if value is None else jnp.asarray(value) for name, value in facts.items()}
    chosen = indices(types.SimpleNamespace(**arrays)).tolist()
    choices = {
        helm_words._of_mortar_mayhem: [helm_words._COMMANDS, helm_words._ROWS, helm_words._COLUMNS, ("safe", "red")],
        helm_words._of_mystery_path: [helm_words._ROWS, helm_words._COLUMNS, ("path", "fall")],
        helm_words._of_searing_spotlights: [helm_words._ROWS, helm_words._COLUMNS] * 3,
    }[indices]
    assert [own[index] for own, index in zip(choices, chosen, strict=True)] == words


@pytest.fixture
def spelling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the tokenizer: two tokens for each text, the last one of which is the sum of its letters."""
    tokenizer = types.SimpleNamespace(encode=lambda text, **_: [0, sum(map(ord, text)) % 997])
    monkeypatch.setattr(helm_words, "load_tokenizer", lambda _: tokenizer)


@pytest.mark.usefixtures("spelling")
def test_a_word_is_its_last_token_and_differs_from_others() -> None:
    words = helm_words.StepWords((("a", "b", "c"), ("x", "y")), lambda facts: facts)
    tokens = helm_words.tokens_of(words, "model")
    assert tokens.tolist() == [[129, 130, 131], [152, 153, 0]]
    with pytest.raises(ConfigError, match="expected a token of its own for each of ab, ba"):
        helm_words.tokens_of(helm_words.StepWords((("ab", "ba"),), lambda facts: facts), "model")


@pytest.mark.slow
@pytest.mark.usefixtures("spelling")
@pytest.mark.parametrize("env_id", ["MortarMayhem-Grid-v0", "MysteryPath-Grid-v0", "SearingSpotlights-v0"])
def test_the_words_are_in_the_text_of_the_game(env_id: str, config: Config) -> None:
    config = dataclasses.replace(config, env=env_id, options=("preset=iclr2023",), memory_input="text")
    env, params, interface = jaxgym.text.make(env_id, preset="iclr2023")
    words = helm_words.words_of(env, params)
    memory, own = with_language_memory(env, params, config)
    step = jax.jit(memory.step)
    _, state = jax.jit(memory.reset)(jax.random.key(0), own)
    for number in range(20):
        scene = env.scene(state.game, params)
        chosen = words.indices(env.visible(scene)).tolist()
        said = [choices[index] for choices, index in zip(words.choices, chosen, strict=True)]
        text = interface.describe(jax.tree.map(np.asarray, scene), params)
        check_words(env_id, said, text)
        action = env.action_space(params).sample(jax.random.key(number))
        seen, state, *_ = step(jax.random.key(number), state, action, own)
        assert np.isfinite(seen["language"]).all()


@pytest.mark.slow
@pytest.mark.usefixtures("spelling")
def test_the_hidden_state_is_that_of_the_model_on_all_words_of_the_window(config: Config) -> None:
    config = dataclasses.replace(config, memory_input="text", memory_empty="masked", memory_window=2)
    env, params = jaxgym.make("MysteryPath-Grid-v0", preset="iclr2023")
    memory, own = with_language_memory(env, params, config)
    seen, state = jax.jit(memory.reset)(jax.random.key(0), own)
    step, tokens = jax.jit(memory.step), []
    for number in range(4):
        tokens.extend(memory.reader(env, None, state.game, own).tolist())
        cache = empty_cache(MODEL, 1, 6)  # two steps of three words
        for token in tokens:
            expected, cache = forward(MODEL, own.model, jnp.asarray([[token]]), cache)
        np.testing.assert_allclose(seen["language"], expected[0, 0], rtol=1e-4, atol=1e-5)
        seen, state, _, terminated, truncated, _ = step(
            jax.random.key(number), state, jnp.asarray([2, 0])[number % 2], own
        )
        assert not terminated | truncated
    assert len(tokens) == 4 * 3


def check_words(env_id: str, said: list[str], text: str) -> None:
    """Check that a text of the game says the same as the words; columns are letters there, and numbers in texts."""
    if env_id == "SearingSpotlights-v0":
        for name, row, column in zip(("You", "Coin", "Exit"), said[::2], said[1::2], strict=True):
            found = re.search(rf"^{name}: x (\d+), y (\d+)", text, re.MULTILINE)
            expected = (str(int(found[2]) // 12 + 1), "ABCDEFG"[int(found[1]) // 12]) if found else ("none", "none")
            assert (row, column) == expected
        return
    command, row, column, state = said if len(said) == 4 else (None, *said)
    assert f"row {row}, column {'ABCDEFG'.index(column) + 1}" in text
    if command is None:
        assert (state == "fall") == ("Red cross" in text)
    else:
        assert f"Command shown: {'none' if command == 'nothing' else command}" in text
        assert (state == "safe") == ("Red tiles: none" in text)
