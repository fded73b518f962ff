"""The actor-critic network: encoder, memory cell, body and heads, over time-major arrays.

Layer sizes and initial weights are those of Memory Gym's published agent.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from baselines.config import Config, EncoderName
from baselines.encoders import (
    BYTE_MAX,
    CONVOLUTIONS,
    HIDDEN_GAIN,
    Encoder,
    Observation,
    Symbols,
    dense,
    space_to_depth,
    without_symbols,
)
from baselines.errors import ConfigError
from baselines.losses import Sizes
from baselines.memories import make_memory
from baselines.memories.cell import MemoryCell, Params, State
from jaxgym.pytrees import first_frame

_POLICY_GAIN = 0.1  # starts near the uniform policy
_IN_DTYPE = {"body", "policy_hidden", "value_hidden", "truth_hidden"}  # layers that compute in the network's `dtype`

_NO_FRAME = "--reconstruction: expected an observation with a frame, got none. Leave the flag out."


class Output(NamedTuple):
    """Outputs of the heads at each step."""

    logits: jax.Array  # float32 (T, B, n_1 + ... + n_K), branches side by side
    value: jax.Array  # float32 (T, B)
    ground_truth: Any = ()  # prediction of the auxiliary target, float32 (T, B, n), if there is a ground-truth head
    reconstruction: Any = ()  # logits of the frames in blocks, (T B, H / 4, W / 4, 16 C), if reconstructed


def depth_to_space(blocks: jax.Array, block: int) -> jax.Array:
    """Invert `space_to_depth`: (N, H, W, block² C) to (N, block H, block W, C)."""
    count, rows, columns, depth = blocks.shape
    channels = depth // block**2
    pixels = blocks.reshape(count, rows, columns, block, block, channels).transpose(0, 1, 3, 2, 4, 5)
    return pixels.reshape(count, rows * block, columns * block, channels)


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
        kernel = self.param("kernel", nn.initializers.orthogonal(HIDDEN_GAIN), (channels, blocks * blocks * block))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        result = lax.conv_general_dilated(
            image.astype(self.dtype),
            kernel.reshape(shape)[:, ::-1, ::-1].transpose(1, 2, 0, 3).astype(self.dtype),
            (1, 1),
            [(blocks - 1, blocks - 1)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        return result + jnp.tile(bias, self.stride**2).astype(self.dtype)[None, None, None]


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
        image = nn.relu(dense(height * width * CONVOLUTIONS[-1][0], self.dtype, name="expand")(features))
        image = image.reshape(-1, height, width, CONVOLUTIONS[-1][0])
        outputs = (self.shape[-1], *(features for features, _, _ in CONVOLUTIONS[:-1]))
        for layer in reversed(range(len(CONVOLUTIONS))):
            _, kernel, stride = CONVOLUTIONS[layer]
            image = BlockDeconv(outputs[layer], kernel, stride, self.dtype, name=f"deconv{layer}")(image)
            if layer:
                image = depth_to_space(nn.relu(image), stride)
        return image


def _encoded(size: int) -> int:
    """Return the length of an edge after the convolutions.

    Raises:
        ConfigError: if the convolutions drop pixels, because the decoder cannot restore them.
    """
    for _, kernel, stride in CONVOLUTIONS:
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
        symbols: arrays of symbols in the observation, see `baselines.encoders.symbols_of`.
    """

    memory: MemoryCell
    sizes: Sizes
    hidden_size: int
    encoder: EncoderName = "nature"
    embed: bool = True
    residual: bool = False
    ground_truth_size: int = 0
    dtype: Any = jnp.float32
    symbols: Symbols = ()

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
        encoder = Encoder(self.hidden_size, self.encoder, self.embed, self.dtype, self.symbols, name="encoder")
        features = encoder(flat).reshape(*starts.shape, -1)
        state, remembered = self.memory(state, features, starts)
        if self.residual:
            if features.shape != remembered.shape:
                raise ConfigError(
                    f"--residual: expected as many features as memory outputs, got {features.shape[-1]} and "
                    f"{remembered.shape[-1]}. Choose equal --memory-size and --hidden-size, with an embedding."
                )
            remembered = remembered + features.astype(remembered.dtype)
        body = nn.relu(dense(self.hidden_size, self.dtype, name="body")(remembered))
        policy = nn.relu(dense(self.hidden_size, self.dtype, name="policy_hidden")(body))
        value = nn.relu(dense(self.hidden_size, self.dtype, name="value_hidden")(body))
        logits = dense(sum(self.sizes), jnp.float32, _POLICY_GAIN, name="policy")(policy.astype(jnp.float32))
        value = dense(1, jnp.float32, 1.0, name="value")(value.astype(jnp.float32))
        ground_truth: Any = ()
        if self.ground_truth_size:
            hidden = nn.relu(dense(self.hidden_size, self.dtype, name="truth_hidden")(remembered))
            ground_truth = dense(self.ground_truth_size, jnp.float32, 1.0, name="truth")(hidden.astype(jnp.float32))
        if not reconstruct:
            return state, Output(logits, value[..., 0], ground_truth)
        frame = first_frame(without_symbols(observation, self.symbols), batch_dims=2)
        if frame is None:
            raise ConfigError(_NO_FRAME)
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
    blocks = space_to_depth(frame.reshape(-1, *frame.shape[2:]), CONVOLUTIONS[0][2])
    share = blocks.astype(jnp.float32) / BYTE_MAX
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
    config: Config,
    action_space: Any,
    frame: tuple[int, ...] | None = None,
    ground_truth_size: int = 0,
    symbols: Symbols = (),
) -> ActorCritic:
    """Build the network of a config for a Discrete or MultiDiscrete action space.

    Args:
        config: settings of the run.
        action_space: space of the actions.
        frame: height, width and channels of the observation's frame, if it has one.
        ground_truth_size: length of the auxiliary target; 0 for no ground-truth head.
        symbols: arrays of symbols in the observation, see `baselines.encoders.symbols_of`.

    Raises:
        ConfigError: if the memory or the encoder is unknown or unsuited, there is no frame to reconstruct, or the
            action space is of another kind.
    """
    if config.reconstruction and frame is None:
        raise ConfigError(_NO_FRAME)
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
        symbols=symbols,
    )
