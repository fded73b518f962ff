"""HELM, History comprEssion via Language Models: a frozen language model reads one embedding for each observation.

Paischer et al., 2022 (arXiv 2205.12258). A fixed random projection maps the grayscale frame to the width of the model.
Its cosine similarities to the token embeddings, times an inverse temperature, go through a softmax. The sum of the
token embeddings with these weights is the input of one step of the model. The last hidden state is the memory.

`LanguageMemory` is an environment: its state contains the model's window of keys and values, and its observations have
an entry `language` with the hidden state. A rollout stores it like every observation, so learning never runs the model.
The weights are environment parameters, so they are in no optimizer and in no checkpoint. The cell
`baselines.memories.helm.Helm` gives the hidden state to the policy.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

import jaxgym  # it imports `spaces` on first use, which takes seconds
from baselines.config import Config, EmptySlots
from baselines.errors import ConfigError
from baselines.helm_words import StepWords, tokens_of, words_of
from baselines.language_model import KeyValueCache, ModelConfig, empty_cache, forward, initial_params, load, reset
from baselines.memories.helm import LANGUAGE
from jaxgym.pytrees import first_frame

_RANDOM = "random:"
_CHUNK = 1 << 24  # bytes per read
_EPSILON = 1e-8  # added to the norm of a query, as published


@struct.dataclass
class HelmParams:
    """Parameters of `LanguageMemory`.

    Attributes:
        game: Parameters of the environment.
        model: Weights of the language model.
        reader: Arrays of the reader.
    """

    game: Any
    model: Any
    reader: Any

    @property
    def levels(self) -> Any:
        """Level buffer of the environment."""
        return self.game.levels


@struct.dataclass
class HelmState:
    """State of `LanguageMemory`.

    Attributes:
        game: State of the environment.
        transient: Window of keys and values without the axis of rows. Checkpoints leave it out, see
            `baselines.runs.pack_state`.
    """

    game: Any
    transient: KeyValueCache


def retrieve(
    frame: jax.Array, projection: jax.Array, embeddings: jax.Array, inverse_norms: jax.Array, beta: float
) -> jax.Array:
    """Return the weighted sum of token embeddings for a frame, (width,).

    Args:
        frame: uint8 (H, W, C); its channels are averaged.
        projection: (H W, width).
        embeddings: (tokens, width), in the dtype of `projection`.
        inverse_norms: float32 (tokens,).
        beta: inverse temperature.
    """
    dtype = projection.dtype
    gray = frame.astype(jnp.float32).mean(axis=-1).reshape(-1).astype(dtype)
    query = jnp.matmul(gray, projection, preferred_element_type=jnp.float32)
    query = (query / (jnp.linalg.norm(query) + _EPSILON)).astype(dtype)
    cosines = jnp.matmul(query, embeddings.T, preferred_element_type=jnp.float32) * inverse_norms
    shares = jax.nn.softmax(beta * cosines).astype(dtype)
    return jnp.matmul(shares, embeddings, preferred_element_type=jnp.float32).astype(dtype)


@dataclasses.dataclass(frozen=True)
class FrameReader:
    """Reader of a frame: one weighted sum of token embeddings, see `retrieve`.

    Its arrays are the random projection, (pixels, width), and the inverse norms of the token embeddings.

    Attributes:
        beta: Inverse temperature of the softmax over tokens.
    """

    beta: float

    @property
    def inputs_per_step(self) -> int:
        """Number of inputs of the model for each step."""
        return 1

    def __call__(self, env: Any, observation: Any, game: Any, params: HelmParams) -> jax.Array:
        """Return one embedding, (1, width)."""
        projection, inverse_norms = params.reader
        frame = first_frame(observation)
        return retrieve(frame, projection, params.model["embedding"], inverse_norms, self.beta)[None]


@dataclasses.dataclass(frozen=True)
class WordReader:
    """Reader of the words for a frame. Its array is the token of each word, int32 (K, most choices).

    Attributes:
        words: The words.
    """

    words: StepWords

    @property
    def inputs_per_step(self) -> int:
        """Number of inputs of the model for each step."""
        return len(self.words.choices)

    def __call__(self, env: Any, observation: Any, game: Any, params: HelmParams) -> jax.Array:
        """Return K tokens, int32 (K,)."""
        chosen = self.words.indices(env.visible(env.scene(game, params.game)))
        return jnp.take_along_axis(params.reader, chosen[:, None], axis=1)[:, 0]


@dataclasses.dataclass(frozen=True)
class LanguageMemory:
    """Environment whose observations have the hidden state of a language model that has read the episode so far.

    Attributes:
        env: The environment.
        model: Sizes of the language model.
        reader: The inputs of the model for each step.
        window: Number of steps in the model's window.
        empty: Whether empty slots of the window are attended to as zeros, as published, or masked.
    """

    env: Any
    model: ModelConfig
    reader: FrameReader | WordReader
    window: int
    empty: EmptySlots

    @property
    def env_id(self) -> str:
        """Id of the environment."""
        return self.env.env_id

    @property
    def metric(self) -> str:
        """Entry of `info` with the result of an episode."""
        return self.env.metric

    def inner_state(self, state: HelmState) -> Any:
        """Return the state of the environment."""
        return state.game

    def action_space(self, params: HelmParams) -> Any:
        """Return the action space of the environment."""
        return self.env.action_space(params.game)

    def observation_space(self, params: HelmParams) -> Any:
        """Return the observation space of the environment with the hidden state."""
        space = self.env.observation_space(params.game)
        entries = dict(space.spaces) if isinstance(space, jaxgym.spaces.Dict) else {"observation": space}
        entry = jaxgym.spaces.Box(-np.inf, np.inf, (self.model.width,), params.model["embedding"].dtype)
        return jaxgym.spaces.Dict({**entries, LANGUAGE: entry})

    def normalized_return(self, info: Mapping[str, jax.Array], state: HelmState, params: HelmParams) -> jax.Array:
        """Return the normalized return of the environment."""
        return self.env.normalized_return(info, state.game, params.game)

    def observe(self, key: jax.Array, state: HelmState, action: Any, params: HelmParams) -> Any:
        """Return the observation of the environment, without the hidden state."""
        return self.env.observe(key, state.game, action, params.game)

    def reset(self, key: jax.Array, params: HelmParams) -> tuple[dict[str, Any], HelmState]:
        """Start an episode with an empty window."""
        observation, game = self.env.reset(key, params.game)
        return self._started(observation, game, params)

    def reset_to_level(self, key: jax.Array, level: Any, params: HelmParams) -> tuple[dict[str, Any], HelmState]:
        """Start an episode of a level with an empty window."""
        observation, game = self.env.reset_to_level(key, level, params.game)
        return self._started(observation, game, params)

    def step(
        self, key: jax.Array, state: HelmState, action: jax.Array, params: HelmParams
    ) -> tuple[dict[str, Any], HelmState, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """Make a step of the environment and one of the language model; XLA removes that of an unread final state."""
        observation, game, reward, terminated, truncated, info = self.env.step(key, state.game, action, params.game)
        if isinstance(self.reader, FrameReader):
            final, _ = self._read(info["final_observation"], game, state.transient, params)
            info = {**info, "final_observation": final}
        window = reset(state.transient, terminated | truncated)
        seen, window = self._read(observation, game, window, params)
        return seen, HelmState(game, window), reward, terminated, truncated, info

    @property
    def _inputs_in_window(self) -> int:
        return self.window * self.reader.inputs_per_step

    def _started(self, observation: Any, game: Any, params: HelmParams) -> tuple[dict[str, Any], HelmState]:
        slots = self._inputs_in_window + self.reader.inputs_per_step - 1  # so many that a loop writes them in place
        rows = empty_cache(self.model, 1, slots, params.model["embedding"].dtype)
        seen, window = self._read(observation, game, jax.tree.map(lambda leaf: leaf[0], rows), params)
        return seen, HelmState(game, window)

    def _read(
        self, observation: Any, game: Any, cache: KeyValueCache, params: HelmParams
    ) -> tuple[dict[str, Any], KeyValueCache]:
        """Return the observation with the hidden state, and the keys and values with those of this step."""
        inputs = self.reader(self.env, observation, game, params)
        rows = jax.tree.map(lambda leaf: leaf[None], cache)
        window = self._inputs_in_window
        hidden, rows = forward(self.model, params.model, inputs[None], rows, empty=self.empty, window=window)
        entries = observation if isinstance(observation, dict) else {"observation": observation}
        return {**entries, LANGUAGE: hidden[0, -1]}, jax.tree.map(lambda leaf: leaf[0], rows)


def with_language_memory(env: Any, params: Any, config: Config) -> tuple[LanguageMemory, HelmParams]:
    """Return the environment with the frozen language model of a config, and its parameters.

    Raises:
        ConfigError: if there is no model, it is another one than at the start of the run, or the observation has no
            frame.
    """
    config = pinned(config)
    model, weights = frozen_model(config.memory_model, config.dtype, config.seed)
    if config.memory_input == "text":
        return _reading_words(env, params, config, model, weights)
    observation = jax.eval_shape(env.reset, jax.random.key(0), params)[0]
    frame = first_frame(observation)
    if frame is None:
        raise ConfigError("memory 'helm': expected an observation with a frame, got none. Choose another --memory.")
    pixels = frame.shape[0] * frame.shape[1]
    norms = jnp.linalg.norm(weights["embedding"].astype(jnp.float32), axis=-1)
    projection = jax.random.normal(jax.random.key(config.seed), (pixels, model.width)) * model.width**-0.5
    made = HelmParams(params, weights, (projection.astype(config.dtype), 1 / jnp.maximum(norms, _EPSILON)))
    reader = FrameReader(config.memory_beta)
    return LanguageMemory(env, model, reader, config.memory_window, config.memory_empty), made


def _reading_words(
    env: Any, params: Any, config: Config, model: ModelConfig, weights: Any
) -> tuple[LanguageMemory, HelmParams]:
    if config.bootstrap_time_limits:
        raise ConfigError("--memory-input text: expected --no-bootstrap-time-limits: the last state has no text.")
    words = words_of(env, params)
    tokens = jnp.asarray(tokens_of(words, config.memory_model.removeprefix(_RANDOM)))
    made = LanguageMemory(env, model, WordReader(words), config.memory_window, config.memory_empty)
    return made, HelmParams(params, weights, tokens)


def pinned(config: Config) -> Config:
    """Return the config with the checksum of its language model; other memories keep their config.

    Raises:
        ConfigError: if there is no model, or the config has another checksum.
    """
    if config.memory != "helm":
        return config
    if not config.memory_model:
        raise ConfigError(
            "memory 'helm': expected --memory-model with a folder or .gguf file of the Llama architecture, got none. "
            "For random weights of the same sizes, write random: before the path."
        )
    path = config.memory_model.removeprefix(_RANDOM)
    found = config.memory_model.removesuffix(path) + _checksum(Path(path))
    if config.memory_model_sha256 not in ("", found):
        raise ConfigError(
            f"{config.memory_model}: expected the model with SHA-256 {config.memory_model_sha256}, got {found}. "
            "Give the model of the run with --memory-model."
        )
    return dataclasses.replace(config, memory_model_sha256=found)


@functools.lru_cache(maxsize=1)
def frozen_model(path: str, dtype: str, seed: int) -> tuple[ModelConfig, Any]:
    """Return sizes and weights of a model; random weights if the path starts with `random:`."""
    model, weights = load(path.removeprefix(_RANDOM), jnp.dtype(dtype))
    if path.startswith(_RANDOM):
        weights = jax.jit(initial_params, static_argnums=(0, 2))(model, jax.random.key(seed), jnp.dtype(dtype))
    return model, weights


@functools.cache
def _checksum(path: Path) -> str:
    """Return the SHA-256 of a file, or of the config and the weights in a folder."""
    files = [path] if path.is_file() else sorted([*path.glob("config.json"), *path.glob("*.safetensors")])
    if not files:
        raise ConfigError(f"--memory-model: expected a folder with a model or a .gguf file, got {path}.")
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            while chunk := content.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()
