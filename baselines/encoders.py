"""Encoders of observations: frames, views of symbols, missions and vectors, and one embedding of all of them.

The image layers compute the published convolutions on blocks of pixels: the same function of the same parameters, in a
form that suits matrix units.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

import jaxgym  # it imports `spaces` on first use, which takes seconds
from baselines.config import EncoderName
from baselines.errors import ConfigError

Observation = Any  # an array or a dict of arrays, leaves integer or float32, (..., H, W, C), (..., n) or (...)
Symbols = tuple[tuple[str, int], ...]  # name of each array of symbols in an observation, and the number of its symbols

CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Features, kernel width in px and stride in px of the published convolutions."""

BYTE_MAX = 255
"""Largest value of a frame's bytes."""

MISSION = "mission"
"""Name of the tokens of a mission in an observation."""

HIDDEN_GAIN = 2**0.5
"""Gain of initial weights that keeps the variance through a ReLU."""

_MOST_SYMBOLS = 64  # a grid of more different numbers is a frame
_MOST_WORDS = 4096  # one-hot vectors of more numbers take too much memory
_VECTOR_FEATURES = 128
_SMALLEST_PX = {"nature": 36, "impala": 8}  # smallest edge of a frame, of which each encoder leaves something
_SECTIONS = (16, 32, 32)  # features of each section of the IMPALA encoder
_FILM_BLOCKS = 2  # as in BabyAI 1.1
_WORD_LAYERS, _WORD_KERNEL = 2, 5  # each feature sees nine words: "put a red ball next to a blue box"
_POSITION_SCALE = 0.1
_VIEW_SHARE, _WORD_SHARE, _MISSION_SHARE = 8, 8, 2  # `hidden_size` per feature: 64, 64 and 256 features of 512 units


def space_to_depth(image: jax.Array, block: int) -> jax.Array:
    """Move the pixels of each block x block square to channels: (N, H, W, C) to (N, H // block, W // block, block² C).

    Rows and columns past the last whole block are dropped.
    """
    count, height, width, channels = image.shape
    rows, columns = height // block, width // block
    image = image[:, : rows * block, : columns * block]
    blocks = image.reshape(count, rows, block, columns, block, channels).transpose(0, 1, 3, 2, 4, 5)
    return blocks.reshape(count, rows, columns, block * block * channels)


class BlockConv(nn.Module):
    """A VALID convolution whose stride divides its kernel, computed with stride 1 over stride x stride blocks.

    Attributes:
        features: output channels F.
        kernel: height and width of the kernel.
        stride: step between outputs, a divisor of `kernel`.
        dtype: type of the computation; parameters are float32.
    """

    features: int
    kernel: int
    stride: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, image: jax.Array) -> jax.Array:
        """Map (N, H, W, C), uint8 (scaled to 0 to 1) or floating, to (N, H', W', F) in `dtype`."""
        shape = (self.kernel, self.kernel, image.shape[-1], self.features)
        kernel = self.param("kernel", nn.initializers.orthogonal(HIDDEN_GAIN), shape)
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        if image.dtype == jnp.uint8:
            kernel = kernel / BYTE_MAX  # bytes are exact in bfloat16, their quotients are not
        count, channels = self.kernel // self.stride, image.shape[-1]
        kernel = kernel.reshape(count, self.stride, count, self.stride, channels, self.features)
        kernel = kernel.transpose(0, 2, 1, 3, 4, 5).reshape(count, count, -1, self.features).astype(self.dtype)
        image = space_to_depth(image, self.stride).astype(self.dtype)  # bytes are cheaper to move than `dtype`
        result = lax.conv_general_dilated(image, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return result + bias.astype(self.dtype)[None, None, None]


def dense(features: int, dtype: Any, gain: float = HIDDEN_GAIN, name: str | None = None) -> nn.Dense:
    """Return a linear layer with orthogonal initial weights."""
    return nn.Dense(features, dtype=dtype, kernel_init=nn.initializers.orthogonal(gain), name=name)


def convolution(features: int, kernel: tuple[int, ...], dtype: Any, name: str | None = None) -> nn.Conv:
    """Return a convolution of stride 1 that keeps the size of its input, with orthogonal initial weights."""
    orthogonal = nn.initializers.orthogonal(HIDDEN_GAIN)
    return nn.Conv(features, kernel, dtype=dtype, kernel_init=orthogonal, name=name)


class Impala(nn.Module):
    """Residual encoder of Espeholt et al., 2018 (arXiv 1802.01561): three sections, each of which halves the image.

    Attributes:
        dtype: type of the computation and of the result; parameters are float32.
    """

    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, image: jax.Array) -> jax.Array:
        """Map bytes (N, H, W, C) to features (N, H / 8, W / 8, 32), with edges rounded up."""
        image = image.astype(self.dtype) * (1 / BYTE_MAX)
        for section, features in enumerate(_SECTIONS):
            image = convolution(features, (3, 3), self.dtype, f"enter{section}")(image)
            image = nn.max_pool(image, (3, 3), (2, 2), "SAME")
            for block in range(2):
                inner = convolution(features, (3, 3), self.dtype, f"block{section}{block}_first")(nn.relu(image))
                image = image + convolution(features, (3, 3), self.dtype, f"block{section}{block}_second")(
                    nn.relu(inner)
                )
        return nn.relu(image)


class SymbolEmbedding(nn.Module):
    """Embedding of symbols in several channels: the sum of one learned vector per channel.

    It is a product with one-hot vectors, because the gradient of a gather is a scatter, which is slow on accelerators.

    Attributes:
        count: number of symbols, the same in all channels.
        features: length F of the vectors.
        dtype: type of the computation and of the result; parameters are float32.
    """

    count: int
    features: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, symbols: jax.Array) -> jax.Array:
        """Map integers (..., C) to vectors (..., F)."""
        channels = symbols.shape[-1]
        scale = nn.initializers.normal(channels**-0.5)
        table = self.param("table", scale, (channels, self.count, self.features))
        one_hot = jax.nn.one_hot(symbols, self.count, dtype=self.dtype).reshape(*symbols.shape[:-1], -1)
        return one_hot @ table.reshape(-1, self.features).astype(self.dtype)


class MissionEncoder(nn.Module):
    """Encoder of the tokens of a mission: embeddings, two convolutions over the words, and the maximum over the words.

    A recurrent encoder, as in BabyAI (Chevalier-Boisvert et al., 2019, arXiv 1810.08272), takes a loop over all tokens
    in every step of the environment. Convolutions over words (Kim, 2014, arXiv 1408.5882) take two. A feature sees nine
    words, so it distinguishes the object to put from the one next to which to put it. Learned positions (Gehring et
    al., 2017, arXiv 1705.03122) give the order of distant instructions.

    Attributes:
        count: number of tokens, including 0 for padding.
        width: length D of the embeddings.
        features: number of features F.
        dtype: type of the computation and of the result; parameters are float32.
    """

    count: int
    width: int
    features: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Map tokens (N, L) to features (N, F)."""
        is_word = (tokens > 0)[..., None]
        position = self.param("position", nn.initializers.normal(_POSITION_SCALE), (tokens.shape[-1], self.width))
        words = SymbolEmbedding(self.count, self.width, self.dtype, name="words")(tokens[..., None])
        words = jnp.where(is_word, words + position.astype(self.dtype)[None], 0)
        for layer in range(_WORD_LAYERS):
            context = convolution(self.width, (_WORD_KERNEL,), self.dtype, f"convolution{layer}")(words)
            words = jnp.where(is_word, words + nn.relu(context), 0)
        features = nn.relu(dense(self.features, self.dtype, name="features")(words))
        return jnp.where(is_word, features, 0).max(axis=-2)


class FiLM(nn.Module):
    """Residual block of two convolutions; the mission scales and shifts each feature of the second one.

    Perez et al., 2018 (arXiv 1709.07871); BabyAI 1.1 has two such blocks (Hui et al., 2020, arXiv 2007.12770). There is
    no batch normalization here, because its statistics differ between acting and learning.

    Attributes:
        dtype: type of the computation and of the result; parameters are float32.
    """

    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, image: jax.Array, mission: jax.Array | None) -> jax.Array:
        """Map features (N, H, W, F) and the features of the mission (N, D), if there is one, to (N, H, W, F)."""
        features = image.shape[-1]
        inner = nn.relu(convolution(features, (3, 3), self.dtype, "first")(image))
        inner = convolution(features, (3, 3), self.dtype, "second")(inner)
        if mission is not None:
            modulation = dense(2 * features, self.dtype, 1.0, name="modulation")(mission)
            scale, shift = jnp.split(modulation[:, None, None], 2, axis=-1)
            inner = inner * (1 + scale) + shift
        return image + nn.relu(inner)


def symbols_of(space: Any) -> Symbols:
    """Return the arrays of symbols in an observation space; symbols are small integers whose order means nothing.

    These are a grid (H, W, C) of at most 64 different numbers, such as the types of objects; and, of at most 4096
    numbers, a single number and the tokens (L,) of the entry `mission`. A frame has 256 different numbers.
    """
    leaves = space.spaces if isinstance(space, jaxgym.spaces.Dict) else {"observation": space}
    counts = {name: _count(leaf) for name, leaf in sorted(leaves.items())}
    return tuple((name, count) for name, count in counts.items() if count and _is_encoded(name, leaves[name], count))


def _count(space: Any) -> int:
    """Return the number of integers from 0 to the highest one; 0 if they are negative or not integers."""
    if isinstance(space, jaxgym.spaces.Discrete):
        return int(space.n)
    if isinstance(space, jaxgym.spaces.Box) and jnp.issubdtype(space.dtype, jnp.integer) and np.min(space.low) >= 0:
        return int(np.max(space.high)) + 1
    return 0


def _is_encoded(name: str, space: Any, count: int) -> bool:
    dims = len(space.shape)
    is_word = dims == 0 or (dims == 1 and name == MISSION)
    return (is_word and count <= _MOST_WORDS) or (dims == len("HWC") and count <= _MOST_SYMBOLS)


def without_symbols(observation: Observation, symbols: Symbols) -> dict[str, Any]:
    """Return the arrays of an observation that are not symbols, by name; one of them can be a frame."""
    leaves = observation if isinstance(observation, Mapping) else {"observation": observation}
    return {name: leaves[name] for name in sorted(leaves.keys() - dict(symbols).keys())}


def check_frames(observation: Any, kind: EncoderName, symbols: Symbols = ()) -> None:
    """Check that each uint8 array of an observation, without a batch axis, is symbols or a frame that is large enough.

    Raises:
        ConfigError: if an array is neither, or a frame is too small for the encoder.
    """
    smallest = _SMALLEST_PX[kind]
    for name, leaf in without_symbols(observation, symbols).items():
        if leaf.dtype == jnp.uint8 and (leaf.ndim != len("HWC") or min(leaf.shape[:2]) < smallest):
            raise ConfigError(
                f"expected frames of at least {smallest} x {smallest} px, got {name} of shape {leaf.shape}. "
                f"For a grid of symbols, declare their bounds in the observation space, at most 0 to "
                f"{_MOST_SYMBOLS - 1}. For the tokens of a mission, use the name {MISSION!r}."
            )


class Encoder(nn.Module):
    """Encoder of one observation: convolutions for images, linear layers for vectors, one embedding of all of them.

    A mission modulates the features of images and is a part of its own.

    Attributes:
        hidden_size: units of the embedding.
        kind: "nature" for the three published convolutions, "impala" for those of IMPALA.
        embed: whether there is an embedding; without it, the features of all parts are concatenated.
        dtype: type of the computation and of the result.
        symbols: arrays of symbols, see `symbols_of`.
    """

    hidden_size: int
    kind: EncoderName = "nature"
    embed: bool = True
    dtype: Any = jnp.float32
    symbols: Symbols = ()

    @nn.compact
    def __call__(self, observation: Observation) -> jax.Array:
        """Map observation leaves (N, ...) to features (N, D).

        Raises:
            ConfigError: if a leaf of bytes is neither symbols nor a frame, or is too small for the encoder.
        """
        leaves = observation if isinstance(observation, Mapping) else {"observation": observation}
        shapes = {name: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for name, leaf in leaves.items()}
        check_frames(shapes, self.kind, self.symbols)
        counts = dict(self.symbols)
        mission = self._mission(leaves[MISSION], counts[MISSION]) if MISSION in counts else None
        # Beside an image, a vector gets a small layer; without an image it gets a full one.
        has_image = any(leaf.dtype == jnp.uint8 for leaf in leaves.values())
        vector_size = _VECTOR_FEATURES if has_image else self.hidden_size
        parts = []
        for name, leaf in sorted(leaves.items()):
            if name == MISSION and mission is not None:
                part = mission
            elif name in counts and leaf.ndim == 1:
                part = jax.nn.one_hot(leaf, counts[name], dtype=self.dtype)
            elif name in counts:
                part = self._view(name, leaf, counts[name], mission)
            elif leaf.dtype == jnp.uint8:
                part = self._frame(name, leaf, mission)
            else:
                part = nn.relu(dense(vector_size, self.dtype, name=f"{name}_linear")(leaf.reshape(len(leaf), -1)))
            parts.append(part.reshape(len(leaf), -1))
        features = jnp.concatenate(parts, axis=-1)
        if self.symbols:  # residual blocks and missions of many words add up to features that would saturate the memory
            features = nn.RMSNorm(name="norm")(features.astype(jnp.float32)).astype(self.dtype)
        return nn.relu(dense(self.hidden_size, self.dtype, name="embedding")(features)) if self.embed else features

    def _features(self, share: int) -> int:
        return max(1, self.hidden_size // share)

    def _mission(self, tokens: jax.Array, count: int) -> jax.Array:
        width, features = self._features(_WORD_SHARE), self._features(_MISSION_SHARE)
        return MissionEncoder(count, width, features, self.dtype, name=f"{MISSION}_words")(tokens)

    def _view(self, name: str, symbols: jax.Array, count: int, mission: jax.Array | None) -> jax.Array:
        """Return the features of a grid of symbols, (N, H, W, F)."""
        features = self._features(_VIEW_SHARE)
        image = SymbolEmbedding(count, features, self.dtype, name=f"{name}_symbols")(symbols)
        image = nn.relu(convolution(features, (3, 3), self.dtype, f"{name}_enter")(image))
        return self._modulated(name, image, mission)

    def _frame(self, name: str, frame: jax.Array, mission: jax.Array | None) -> jax.Array:
        """Return the features of a frame, (N, H', W', F)."""
        if self.kind == "impala":
            image = Impala(self.dtype, name=f"{name}_impala")(frame)
        else:
            image = frame
            for layer, shape in enumerate(CONVOLUTIONS):
                image = nn.relu(BlockConv(*shape, self.dtype, name=f"{name}_conv{layer}")(image))
        return image if mission is None else self._modulated(name, image, mission)

    def _modulated(self, name: str, image: jax.Array, mission: jax.Array | None) -> jax.Array:
        for block in range(_FILM_BLOCKS):
            image = FiLM(self.dtype, name=f"{name}_film{block}")(image, mission)
        return image
