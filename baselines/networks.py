"""The actor-critic network: encoder, memory cell, body and heads, over time-major arrays.

Layer sizes and initial weights are those of Memory Gym's published agent. The image layers compute the published
convolutions on blocks of pixels: the same function of the same parameters, in a form that suits matrix units.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from baselines.config import Config, EncoderName
from baselines.errors import ConfigError
from baselines.losses import Sizes
from baselines.memories import make_memory
from baselines.memories.cell import MemoryCell, Params, State
from jaxgym.pytrees import first_frame

Observation = Any  # an array or a dict of arrays, leaves uint8 (..., H, W, C) or float32 (..., n)

_HIDDEN_GAIN = 2**0.5  # keeps the variance through a ReLU
_POLICY_GAIN = 0.1  # starts near the uniform policy
_VECTOR_FEATURES = 128
_CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # features, kernel width in px, stride in px
_SMALLEST_PX = {"nature": 36, "impala": 8}  # smallest edge of a frame, of which each encoder leaves something
_BYTE_MAX = 255
_SECTIONS = (16, 32, 32)  # features of each section of the IMPALA encoder
_IN_DTYPE = {"body", "policy_hidden", "value_hidden", "truth_hidden"}  # layers that compute in the network's `dtype`


class Output(NamedTuple):
    """Outputs of the heads at each step."""

    logits: jax.Array  # float32 (T, B, n_1 + ... + n_K), branches side by side
    value: jax.Array  # float32 (T, B)
    ground_truth: Any = ()  # prediction of the auxiliary target, float32 (T, B, n), if there is a ground-truth head
    reconstruction: Any = ()  # logits of the frames in blocks, (T B, H / 4, W / 4, 16 C), if reconstructed


def space_to_depth(image: jax.Array, block: int) -> jax.Array:
    """Move the pixels of each block x block square to channels: (N, H, W, C) to (N, H // block, W // block, block² C).

    Rows and columns past the last whole block are dropped.
    """
    count, height, width, channels = image.shape
    rows, columns = height // block, width // block
    image = image[:, : rows * block, : columns * block]
    blocks = image.reshape(count, rows, block, columns, block, channels).transpose(0, 1, 3, 2, 4, 5)
    return blocks.reshape(count, rows, columns, block * block * channels)


def depth_to_space(blocks: jax.Array, block: int) -> jax.Array:
    """Invert `space_to_depth`: (N, H, W, block² C) to (N, block H, block W, C)."""
    count, rows, columns, depth = blocks.shape
    channels = depth // block**2
    pixels = blocks.reshape(count, rows, columns, block, block, channels).transpose(0, 1, 3, 2, 4, 5)
    return pixels.reshape(count, rows * block, columns * block, channels)


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
        kernel = self.param("kernel", nn.initializers.orthogonal(_HIDDEN_GAIN), shape)
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        if image.dtype == jnp.uint8:
            kernel = kernel / _BYTE_MAX  # bytes are exact in bfloat16, their quotients are not
        count, channels = self.kernel // self.stride, image.shape[-1]
        kernel = kernel.reshape(count, self.stride, count, self.stride, channels, self.features)
        kernel = kernel.transpose(0, 2, 1, 3, 4, 5).reshape(count, count, -1, self.features).astype(self.dtype)
        image = space_to_depth(image, self.stride).astype(self.dtype)  # bytes are cheaper to move than `dtype`
        result = lax.conv_general_dilated(image, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return result + bias.astype(self.dtype)[None, None, None]


class BlockDeconv(nn.Module):
    """Transpose of a `BlockConv`: each input adds its kernel to stride x stride blocks of the output.

    Attributes:
        features: output channels F.
        kernel: height and width of the kernel.
        stride: step between inputs, a divisor of `kernel`.
        dtype: type of the computation; parameters are float32.
    """

    features: int
    kernel: int
    stride: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, image: jax.Array) -> jax.Array:
        """Map (N, H, W, C) to blocks (N, H + k/s - 1, W + k/s - 1, s² F) with the pixels of each block as channels."""
        channels, blocks, block = image.shape[-1], self.kernel // self.stride, self.stride**2 * self.features
        shape = (channels, blocks, blocks, block)
        kernel = self.param("kernel", nn.initializers.orthogonal(_HIDDEN_GAIN), (channels, blocks * blocks * block))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        result = lax.conv_general_dilated(
            image.astype(self.dtype),
            kernel.reshape(shape)[:, ::-1, ::-1].transpose(1, 2, 0, 3).astype(self.dtype),
            (1, 1),
            [(blocks - 1, blocks - 1)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        return result + jnp.tile(bias, self.stride**2).astype(self.dtype)[None, None, None]


def _dense(features: int, dtype: Any, gain: float = _HIDDEN_GAIN, name: str | None = None) -> nn.Dense:
    return nn.Dense(features, dtype=dtype, kernel_init=nn.initializers.orthogonal(gain), name=name)


class Impala(nn.Module):
    """Residual encoder of Espeholt et al., 2018 (arXiv 1802.01561): three sections, each of which halves the image.

    Attributes:
        dtype: type of the computation and of the result; parameters are float32.
    """

    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, image: jax.Array) -> jax.Array:
        """Map bytes (N, H, W, C) to features (N, H / 8 · W / 8 · 32), with edges rounded up."""
        image = image.astype(self.dtype) * (1 / _BYTE_MAX)
        for section, features in enumerate(_SECTIONS):
            image = self._convolve(f"enter{section}", image, features)
            image = nn.max_pool(image, (3, 3), (2, 2), "SAME")
            for block in range(2):
                inner = self._convolve(f"block{section}{block}_first", nn.relu(image), features)
                image = image + self._convolve(f"block{section}{block}_second", nn.relu(inner), features)
        return nn.relu(image).reshape(image.shape[0], -1)

    def _convolve(self, name: str, image: jax.Array, features: int) -> jax.Array:
        orthogonal = nn.initializers.orthogonal(_HIDDEN_GAIN)
        return nn.Conv(features, (3, 3), dtype=self.dtype, kernel_init=orthogonal, name=name)(image)


def check_frames(observation: Any, kind: EncoderName) -> None:
    """Check that each uint8 array of an observation, without a batch axis, is a frame that the encoder can read.

    Raises:
        ConfigError: if an array is not a frame, or is too small for the encoder.
    """
    leaves = observation if isinstance(observation, Mapping) else {"observation": observation}
    smallest = _SMALLEST_PX[kind]
    for name, leaf in sorted(leaves.items()):
        if leaf.dtype == jnp.uint8 and (leaf.ndim != len("HWC") or min(leaf.shape[:2]) < smallest):
            raise ConfigError(
                f"expected frames of at least {smallest} x {smallest} px, got {name} of shape {leaf.shape}. "
                "The encoder of symbols and missions is not implemented; choose observation=pixels for "
                "MiniGrid-Memory, and another environment in place of BabyAI."
            )


class Encoder(nn.Module):
    """Encoder of one observation: convolutions for images, linear layers for vectors, one embedding of all of them.

    Attributes:
        hidden_size: units of the embedding.
        kind: "nature" for the three published convolutions, "impala" for those of IMPALA.
        embed: whether there is an embedding; without it, the features of images and vectors are concatenated.
        dtype: type of the computation and of the result.
    """

    hidden_size: int
    kind: EncoderName = "nature"
    embed: bool = True
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, observation: Observation) -> jax.Array:
        """Map observation leaves (N, ...) to features (N, D).

        Raises:
            ConfigError: if a leaf of bytes is not a frame, or is too small for the encoder.
        """
        leaves = observation if isinstance(observation, Mapping) else {"observation": observation}
        check_frames(
            {name: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for name, leaf in leaves.items()}, self.kind
        )
        # Beside an image, a vector gets a small layer; without an image it gets a full one.
        has_image = any(leaf.dtype == jnp.uint8 for leaf in leaves.values())
        vector_size = _VECTOR_FEATURES if has_image else self.hidden_size
        parts = []
        for name, leaf in sorted(leaves.items()):
            if leaf.dtype == jnp.uint8 and self.kind == "impala":
                parts.append(Impala(self.dtype, name=f"{name}_impala")(leaf))
            elif leaf.dtype == jnp.uint8:
                for layer, shape in enumerate(_CONVOLUTIONS):
                    leaf = nn.relu(BlockConv(*shape, self.dtype, name=f"{name}_conv{layer}")(leaf))
                parts.append(leaf.reshape(leaf.shape[0], -1))
            else:
                flat = leaf.reshape(leaf.shape[0], -1)
                parts.append(nn.relu(_dense(vector_size, self.dtype, name=f"{name}_linear")(flat)))
        features = jnp.concatenate(parts, axis=-1)
        return nn.relu(_dense(self.hidden_size, self.dtype, name="embedding")(features)) if self.embed else features


class Decoder(nn.Module):
    """Decoder of a frame: the encoder's layers in reverse. It returns logits of the frame's bytes, in blocks.

    Attributes:
        shape: height, width and channels of the frame.
        dtype: type of the computation and of the result.
    """

    shape: tuple[int, int, int]
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        """Map features (N, D) to logits (N, H / 4, W / 4, 16 C)."""
        height, width = (_encoded(size) for size in self.shape[:2])
        image = nn.relu(_dense(height * width * _CONVOLUTIONS[-1][0], self.dtype, name="expand")(features))
        image = image.reshape(-1, height, width, _CONVOLUTIONS[-1][0])
        outputs = (self.shape[-1], *(features for features, _, _ in _CONVOLUTIONS[:-1]))
        for layer in reversed(range(len(_CONVOLUTIONS))):
            _, kernel, stride = _CONVOLUTIONS[layer]
            image = BlockDeconv(outputs[layer], kernel, stride, self.dtype, name=f"deconv{layer}")(image)
            if layer:
                image = depth_to_space(nn.relu(image), stride)
        return image


def _encoded(size: int) -> int:
    """Return the length of an edge after the convolutions.

    Raises:
        ConfigError: if the convolutions drop pixels, because the decoder cannot restore them.
    """
    for _, kernel, stride in _CONVOLUTIONS:
        if size < kernel or (size - kernel) % stride:
            raise ConfigError("reconstruction: expected frames whose edges the convolutions divide, such as 84 x 84")
        size = (size - kernel) // stride + 1
    return size


class ActorCritic(nn.Module):
    """Actor-critic network: encoder, memory, a shared body, and one head each for the policy and the value.

    Attributes:
        memory: the memory cell.
        sizes: number of choices of each action branch.
        hidden_size: units of the embedding, the body and each head's hidden layer.
        encoder: kind of the encoder.
        embed: whether the encoder has an embedding.
        residual: whether the memory's inputs are added to its outputs.
        ground_truth_size: length of the auxiliary target; 0 for no ground-truth head.
        dtype: type of activations.
    """

    memory: MemoryCell
    sizes: Sizes
    hidden_size: int
    encoder: EncoderName = "nature"
    embed: bool = True
    residual: bool = False
    ground_truth_size: int = 0
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(
        self, state: State, observation: Observation, starts: jax.Array, *, reconstruct: int = 0
    ) -> tuple[State, Output]:
        """Return the recurrent state after the last step, and the heads' outputs at every step.

        Args:
            state: recurrent state before the first step, leaves (B, ...).
            observation: leaves (T, B, ...).
            starts: whether the step is the first of an episode, bool (T, B).
            reconstruct: number of environments, from the first on, whose frames are decoded from the memory's outputs.

        Raises:
            ConfigError: if there is no frame to reconstruct, or a residual memory is not as wide as its input.
        """
        state, seen = self.memory.preprocess(state, observation, starts)
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), seen)
        encoder = Encoder(self.hidden_size, self.encoder, self.embed, self.dtype, name="encoder")
        features = encoder(flat).reshape(*starts.shape, -1)
        state, remembered = self.memory(state, features, starts)
        if self.residual:
            if features.shape != remembered.shape:
                raise ConfigError(
                    f"--residual: expected as many features as memory outputs, got {features.shape[-1]} and "
                    f"{remembered.shape[-1]}. Choose equal --memory-size and --hidden-size, with an embedding."
                )
            remembered = remembered + features.astype(remembered.dtype)
        body = nn.relu(_dense(self.hidden_size, self.dtype, name="body")(remembered))
        policy = nn.relu(_dense(self.hidden_size, self.dtype, name="policy_hidden")(body))
        value = nn.relu(_dense(self.hidden_size, self.dtype, name="value_hidden")(body))
        logits = _dense(sum(self.sizes), jnp.float32, _POLICY_GAIN, name="policy")(policy.astype(jnp.float32))
        value = _dense(1, jnp.float32, 1.0, name="value")(value.astype(jnp.float32))
        ground_truth: Any = ()
        if self.ground_truth_size:
            hidden = nn.relu(_dense(self.hidden_size, self.dtype, name="truth_hidden")(remembered))
            ground_truth = _dense(self.ground_truth_size, jnp.float32, 1.0, name="truth")(hidden.astype(jnp.float32))
        if not reconstruct:
            return state, Output(logits, value[..., 0], ground_truth)
        frame = first_frame(observation, batch_dims=2)
        if frame is None:
            raise ConfigError("--reconstruction: expected an observation with a frame, got none. Leave the flag out.")
        decoded = Decoder(frame.shape[2:], self.dtype, name="decoder")(
            remembered[:, :reconstruct].reshape(-1, remembered.shape[-1])
        )
        return state, Output(logits, value[..., 0], ground_truth, decoded)

    def precompute(self, params: Params) -> Params:
        """Return the parameters in a form that is faster for acting; call it once before the loop of steps.

        Both forms give the same outputs, bit for bit. The encoder's parameters are unchanged: with convolution kernels
        from outside the loop, cuDNN selects a direct convolution, and a rollout takes 13 times as long (on an H200 with
        jax 0.11).
        """
        own = dict(params["params"])
        for name in own.keys() & _IN_DTYPE:
            own[name] = jax.tree.map(lambda leaf: leaf.astype(self.dtype), own[name])
        if "memory" in own:
            own["memory"] = self.memory.precompute(own["memory"])
        return {**params, "params": own}


def reconstruction_loss(reconstruction: jax.Array, frame: jax.Array) -> jax.Array:
    """Return the mean binary cross-entropy between a decoder's logits and bytes / 255.

    Args:
        reconstruction: logits in blocks, (T B, H / 4, W / 4, 16 C), time before environments.
        frame: uint8 (T, B, H, W, C).
    """
    blocks = space_to_depth(frame.reshape(-1, *frame.shape[2:]), _CONVOLUTIONS[0][2])
    share = blocks.astype(jnp.float32) / _BYTE_MAX
    logits = reconstruction.astype(jnp.float32)
    return (nn.softplus(logits) - share * logits).mean()


def action_sizes(space: Any) -> Sizes:
    """Return the number of choices of each branch of a Discrete or MultiDiscrete action space.

    Raises:
        ConfigError: if the space is of another kind.
    """
    if hasattr(space, "nvec"):
        return tuple(int(size) for size in space.nvec)
    if hasattr(space, "n"):
        return (int(space.n),)
    raise ConfigError(f"expected a Discrete or MultiDiscrete action space, got {space!r}")


def make_network(
    config: Config, action_space: Any, frame: tuple[int, ...] | None = None, ground_truth_size: int = 0
) -> ActorCritic:
    """Build the network of a config for a Discrete or MultiDiscrete action space.

    `frame` is height, width and channels of the observation's frame, if it has one; `ground_truth_size` is the length
    of the auxiliary target, 0 for no ground-truth head.

    Raises:
        ConfigError: if the memory or the encoder is unknown or unsuited, or the action space is of another kind.
    """
    if config.encoder != "nature" and frame is None:
        raise ConfigError(f"--encoder {config.encoder}: expected an observation with a frame, got none. Leave it out.")
    memory = make_memory(config, frame)
    sizes, dtype = action_sizes(action_space), jnp.dtype(config.dtype)
    return ActorCritic(
        memory=memory,
        sizes=sizes,
        hidden_size=config.hidden_size,
        encoder=config.encoder,
        embed=config.embed,
        residual=config.residual,
        ground_truth_size=ground_truth_size,
        dtype=dtype,
    )
