"""Settings of a training run: one frozen dataclass and three scales that set its defaults.

Sources of the numbers: Pleines et al., *Memory Gym*, JMLR 26(6), 2025 (arXiv 2309.17207) for `paper`; our own
experiments for `throughput` and `cpu`.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args

import jaxgym
from baselines.curriculum import CurriculumName, check_curriculum
from baselines.errors import ConfigError
from jaxgym.errors import OptionError, nearest

Scale = Literal["paper", "throughput", "cpu"]
Dtype = Literal["float32", "bfloat16"]
EncoderName = Literal["nature", "impala"]
EmptySlots = Literal["zeros", "masked"]
MemoryInput = Literal["frame", "text"]
Entry = TypeVar("Entry")

INT32_END = 2**31
"""Upper bound of seeds and of most settings, because programs count and make keys in int32."""

# These settings change the duration or the reports of a run, not the parameters after a given update.
FREE_ON_RESUME = frozenset(
    {"total_steps", "decay_steps", "checkpoint_updates", "keep_checkpoints", "eval_repeats", "eval_every"}
    | {"memory_model"}  # its checksum determines the weights
)


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings that determine what a run learns. The defaults are those of the `throughput` scale.

    Raises:
        ConfigError: if a value is out of range, or the environments do not divide into minibatches.
    """

    scale: Scale = "throughput"
    """Source of the defaults: the JMLR paper, large batches on an accelerator, or small batches on a CPU.
    Default: throughput, or cpu if JAX finds no accelerator.
    """

    preset: str = ""
    """Preset that sets the defaults in place of a scale: a published run or a large-batch run. --list shows all."""
    env: str = "MortarMayhem-Grid-v0"
    """Environment id."""
    options: tuple[str, ...] = ()
    """Environment options as NAME=VALUE, values in JSON or as bare words: 'command_count=[3]' observation=symbolic"""
    sampled_options: tuple[str, ...] = ()
    """Options whose values each training level samples log-uniformly, as NAME=[LOW,HIGH]: 'corridor_length=[10,1000]'
    Held-out levels have the values in --options.
    """
    train_levels: int = 100_000
    """Number of training seeds in the level buffer; 0 samples a fresh training level at every reset."""
    curriculum: CurriculumName = "none"
    """Curriculum of the training levels: equal probabilities (none), Prioritized Level Replay (plr), Sampling for
    Learnability (sfl), or --grown-options that become harder (grow).
    """
    grown_options: tuple[str, ...] = ()
    """Options for each stage of --curriculum grow, as NAME=[FIRST,...,LAST]: 'command_count=[[1],[3],[10]]'"""
    held_out_levels: int = 50
    """Number of held-out levels for evaluation."""
    eval_repeats: int = 1
    """Episodes per level in an evaluation. They differ because the policy is sampled."""
    eval_every: int = 0
    """Blocks between two evaluations on the held-out levels during training; 0 evaluates only at the end."""

    memory: str = "gru"
    """Memory of the agent: ffm, gated_deltanet, gru, gtrxl, lru, lstm, mingru, mlstm, s5 or trxl.
    Without a learned memory: none, clock (the step number as input), stack4 (frames in color), stack16 (in gray) or
    helm (a frozen language model, see --memory-model).
    Your own cell: my_package.module:MyCell.
    """
    memory_size: int = 512
    """Number of units of the memory."""
    memory_layers: int = 0
    """Number of memory layers. 0 means 1 for gru and lstm, 3 for trxl and gtrxl, and 2 for the other recurrent cells.
    For your own cell, 0 means its attribute `stacked_layers`, which is 1 by default.
    """
    memory_heads: int = 4
    """Number of heads of transformers, gated_deltanet and mlstm.
    For ffm, it is the number of contexts, and for s5 the number of blocks of the initial matrix.
    """
    memory_window: int = 256
    """Number of steps in the attention window of trxl, gtrxl and helm."""
    memory_span: int = 0
    """Time span in steps of the slowest units at the start of training; 0 for the memory's own.
    Set it to the length of the episodes if a task is longer than about 1000 steps. Of the built-in memories, only
    recurrent ones use it.
    """
    memory_model: str = ""
    """Language model of helm: a folder or .gguf file of the Llama architecture; random:PATH for random weights."""
    memory_model_sha256: str = ""
    """SHA-256 of the language model. A run fills it in, and then rejects another model."""
    memory_input: MemoryInput = "frame"
    """Input of helm's language model: the frame, or words for what it shows (text), as an upper bound."""
    memory_empty: EmptySlots = "zeros"
    """Attend to empty slots in the window of helm as zeros, as published, or mask them."""
    memory_beta: float = 100.0
    """Inverse temperature of helm's softmax over tokens."""
    memory_positions: bool = True
    """Add positional encodings of the step to trxl and gtrxl; off in the published runs of Mystery Path on a grid."""
    memory_gate_bias: float = 2.0
    """Initial bias of gtrxl's gates towards the identity; 0 and 2 in the published runs."""
    memory_gradient: bool = True
    """Propagate gradients of trxl and gtrxl into earlier steps of the same rollout; off in the published runs."""
    residual: bool = False
    """Add the memory's inputs to its outputs. Only for one layer of gru or lstm that is as wide as its input."""
    encoder: EncoderName = "nature"
    """Image encoder: three convolutions as published (nature), or the fifteen of IMPALA's residual network."""
    embed: bool = True
    """Add a linear layer between the encoder and the memory; off in the agents of Memory Gym's first paper."""
    last_action_reward: bool = False
    """Add the last action and its reward to the observation."""
    hidden_size: int = 512
    """Number of units of the embedding, the body and each head's hidden layer."""
    dtype: Dtype = "bfloat16"
    """Type of activations. Parameters, recurrent states, log-probabilities and losses are float32."""
    unroll: int = 4
    """Recurrent steps per loop iteration: more of them take longer to compile and less time to run."""

    start_from: str = ""
    """Run folder, or zoo:ID, with the agent whose network parameters the run starts from; empty for random ones.
    The network must be the same. Environment, lengths and rates may differ, as in a curriculum of several runs.
    """

    num_envs: int = 1024
    """Number of environments in the batch."""
    num_steps: int = 64
    """Steps of each environment per update. Backpropagation through time stops at this length."""
    bptt: int = 0
    """BPTT length: split rollouts into sequences of this many steps; 0 uses whole rollouts.
    Shorter sequences run faster and mix better, but limit the time span of gradients.
    """
    epochs: int = 3
    """Number of passes over each rollout."""
    minibatches: int = 16
    """Number of gradient steps per pass; each of them uses whole sequences."""
    total_steps: int = 50_000_000
    """Number of environment steps of the run, rounded up to whole blocks."""
    decay_steps: int = 0
    """Environment steps over which learning rate and entropy coefficient decay; 0 means the whole run."""
    block_updates: int = 16
    """Updates per jitted call; metrics, checkpoints and the progress bar are updated between calls."""

    gamma: float = 0.995
    """Discount per step."""
    gae_lambda: float = 0.95
    """Parameter λ of generalized advantage estimation."""
    clip: float = 0.1
    """Clip range of the probability ratio and of the change of the value."""
    value_coef: float = 0.5
    """Weight of the value loss."""
    entropy_start: float = 1e-4
    """Entropy coefficient at the start."""
    entropy_end: float = 1e-6
    """Entropy coefficient after the decay."""
    learning_rate_start: float = 5e-4
    """Learning rate at the start."""
    learning_rate_end: float = 1e-5
    """Learning rate after the decay."""
    weight_decay: float = 0.01
    """AdamW's weight decay, multiplied by the learning rate."""
    max_grad_norm: float = 0.25
    """Maximum global norm of the gradient; larger gradients are scaled down to it."""
    normalize_advantage: bool = False
    """Normalize advantages per minibatch.
    Off by default: with sparse rewards it scales near-zero advantages up to unit size.
    Memory Gym's authors found Searing Spotlights unlearnable with it.
    """
    joint_ratio: bool = False
    """Use one probability ratio for all action branches instead of one per branch with averaged objectives."""
    reconstruction: float = 0.0
    """Weight of the loss for reconstructing frames from the memory's output (published: 0.1); 0 removes the decoder."""
    reconstruction_share: float = 1.0
    """Share of each minibatch's sequences whose frames are reconstructed; the cost is proportional to it."""
    ground_truth_head: float = 0.0
    """Weight of the loss of the ground-truth head (published: 0.1); 0 removes the head.
    The head predicts info["ground_truth"] of an endless environment from the memory's output.
    """
    bootstrap_time_limits: bool = True
    """Bootstrap the value at a time limit. Off treats the limit as termination, as published."""

    seed: int = 0
    """First random seed."""
    num_seeds: int = 1
    """Number of independent runs with consecutive seeds, trained in parallel by vmap."""
    devices: int = 1
    """Devices that share the training: its environments, or its seeds if there are several.
    Each device samples and shuffles its own environments, so another number of devices gives another, statistically
    equal run.
    """

    checkpoint_updates: int = 64
    """Updates between two checkpoints, rounded up to whole blocks."""
    keep_checkpoints: int = 3
    """Number of newest checkpoints to keep on disk; 0 keeps all."""

    def __post_init__(self) -> None:
        check_seed(self.seed, self.num_seeds)
        check_numbers(self, _LEAST)
        for name, value in vars(self).items():
            if isinstance(value, int) and value >= INT32_END and name not in _STEPS_IN_ALL:
                raise ConfigError(f"{name}: expected a number below {INT32_END}, got {value}")
        for name in _SHARES:
            if getattr(self, name) > 1:
                raise ConfigError(f"{name}: expected a number from 0 to 1, got {getattr(self, name)}")
        shared = "num_envs" if self.num_seeds == 1 else "num_seeds"
        if getattr(self, shared) % self.devices:
            raise ConfigError(
                f"{shared}: expected a multiple of the {self.devices} devices, got {getattr(self, shared)}. "
                f"Change {shared} or devices."
            )
        if self.num_steps % self.sequence_steps:
            raise ConfigError(
                f"num_steps: expected a multiple of bptt {self.bptt}, got {self.num_steps}. Change num_steps or bptt."
            )
        if self.num_sequences % self.minibatches:
            sequences = "environments" if not self.bptt else "sequences of steps"
            where, times = (" of each device", " times devices") if self.envs_per_device < self.num_envs else ("", "")
            raise ConfigError(
                f"expected a number of {sequences}{where} that divides into {self.minibatches} minibatches, "
                f"got {self.num_sequences}. Choose num_envs as a multiple of minibatches{times}."
            )
        parse_options(self.options)
        _ = self.option_ranges
        check_curriculum(self)

    @property
    def batch_steps(self) -> int:
        """Environment steps of one update of one seed."""
        return self.num_envs * self.num_steps

    @property
    def is_split(self) -> bool:
        """True if the environments of one run are spread over devices."""
        return self.devices > 1 and self.num_seeds == 1

    @property
    def envs_per_device(self) -> int:
        """Environments of one seed on one device."""
        return self.num_envs // self.devices if self.is_split else self.num_envs

    @property
    def sequence_steps(self) -> int:
        """Length of the training sequences."""
        return self.bptt or self.num_steps

    @property
    def num_sequences(self) -> int:
        """Number of sequences in one rollout of one seed on one device."""
        return self.envs_per_device * (self.num_steps // self.sequence_steps)

    @property
    def decay_length(self) -> int:
        """Environment steps over which the schedules decay."""
        return self.decay_steps or self.total_steps

    @property
    def num_blocks(self) -> int:
        """Number of jitted calls of the whole run."""
        return -(-self.total_steps // (self.batch_steps * self.block_updates))

    @property
    def trained_steps(self) -> int:
        """Environment steps of one seed in the whole run: `total_steps`, rounded up to whole blocks."""
        return self.num_updates * self.batch_steps

    @property
    def num_updates(self) -> int:
        """Number of updates of the whole run."""
        return self.num_blocks * self.block_updates

    @property
    def env_options(self) -> dict[str, Any]:
        """Keyword arguments of `jaxgym.make` for the environment."""
        return parse_options(self.options)

    @property
    def option_ranges(self) -> dict[str, tuple[float, float]]:
        """Lowest and highest value of each sampled option."""
        ranges: dict[str, tuple[float, float]] = {}
        for name, value in parse_options(self.sampled_options).items():
            match value:
                case [int() | float() as low, int() | float() as high]:
                    ranges[name] = (low, high)
                case _:
                    raise ConfigError(f"--sampled-options {name}: expected [LOW,HIGH] with two numbers, got {value!r}")
        return ranges


_LEAST: dict[str, int] = dict.fromkeys(
    ("seed", "eval_every", "train_levels", "memory_layers", "memory_span", "bptt", "decay_steps", "keep_checkpoints"), 0
)
_STEPS_IN_ALL = {"total_steps", "decay_steps"}  # the host counts these, in Python integers
_SHARES = ("gamma", "gae_lambda", "reconstruction_share")


def check_numbers(settings: Any, least: Mapping[str, int]) -> None:
    """Check that the numbers of a dataclass are finite and not too small: floats at least 0, integers at least 1.

    Args:
        settings: the dataclass.
        least: smallest values of other integers, by name.

    Raises:
        ConfigError: if a number is not.
    """
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if not math.isfinite(value):
            raise ConfigError(f"{field.name}: expected a finite number, got {value}")
        smallest = 0 if isinstance(field.default, float) else least.get(field.name, 1)
        if value < smallest:
            raise ConfigError(f"{field.name}: expected at least {smallest}, got {value}")


def check_seed(seed: int, count: int = 1) -> None:
    """Check that consecutive random seeds from `seed` on are in range.

    Raises:
        ConfigError: if a seed is negative or not below `INT32_END`.
    """
    if not 0 <= seed <= INT32_END - count:
        several = f" with {count} seeds" if count > 1 else ""
        raise ConfigError(f"seed: expected a number from 0 to {INT32_END - count}{several}, got {seed}")


def parse_options(options: Iterable[str]) -> dict[str, Any]:
    """Parse NAME=VALUE pairs into keyword arguments, see `jaxgym.parse_options`.

    Raises:
        ConfigError: if a word has no name or no equals sign, a name occurs twice, or the option is `levels`, which has
            settings of its own.
    """
    try:
        parsed = jaxgym.parse_options(options)
    except OptionError as error:
        raise ConfigError(str(error)) from error
    if "levels" in parsed:
        raise ConfigError("expected no option 'levels', got one. Use train_levels and held_out_levels instead.")
    return parsed


def from_name(kind: str, name: str, table: Mapping[str, Entry]) -> Entry:
    """Return an entry of a table by its name.

    Raises:
        ConfigError: if the table has no such name; the message lists the allowed names and the nearest one.
    """
    if name in table:
        return table[name]
    raise ConfigError(f"{kind}: expected one of {', '.join(sorted(table))}, got {name!r}{nearest(name, table)}")


def check_lists(flags: Iterable[str], arguments: Sequence[str]) -> None:
    """Reject flags of several values that are given twice; the parser would drop the values of the first one.

    Raises:
        ConfigError: if a flag is given twice.
    """
    for flag in flags:
        if sum(word.partition("=")[0] == flag for word in arguments) > 1:
            raise ConfigError(f"expected {flag} once, got it twice. Give all its values after one {flag}.")


def differences(config: Config, other: Config) -> list[str]:
    """Return the names of the settings in which two configs differ and that change what a run learns."""
    names = [field.name for field in dataclasses.fields(Config) if field.name not in FREE_ON_RESUME]
    changed = [name for name in names if getattr(config, name) != getattr(other, name)]
    return changed + ["decay_steps"] * (config.decay_length != other.decay_length)


def from_json(settings: Any) -> Config:
    """Return the config of the plain values that `dataclasses.asdict` has made of one.

    Raises:
        ConfigError: if `settings` is not a config, or a setting is unknown to this version, has a value of another
            type, or is out of range.
    """
    if not isinstance(settings, dict) or "env" not in settings:
        raise ConfigError("expected the config to be an object of settings with env, got something else")
    unknown = settings.keys() - {field.name for field in dataclasses.fields(Config)}
    if unknown:
        raise ConfigError(f"the config has settings that this version does not support: {', '.join(sorted(unknown))}")
    for name, value in settings.items():
        wanted = "list" if name in _LISTS else type(getattr(Config, name)).__name__
        given = type(value).__name__
        if given != wanted and (given, wanted) != ("int", "float"):
            raise ConfigError(f"{name}: expected a value of type {wanted} in the config, got {value!r}")
        if value not in _CHOICES.get(name, (value,)):
            raise ConfigError(f"{name}: expected one of {', '.join(_CHOICES[name])} in the config, got {value!r}")
    return Config(**{**settings, **{name: tuple(map(str, settings.get(name, ()))) for name in _LISTS}})


_LISTS = ("options", "sampled_options", "grown_options")
_CHOICES: dict[str, tuple[str, ...]] = {
    "scale": get_args(Scale),
    "encoder": get_args(EncoderName),
    "dtype": get_args(Dtype),
    "memory_empty": get_args(EmptySlots),
    "memory_input": get_args(MemoryInput),
}

SCALES: dict[str, Config] = {
    "paper": Config(
        scale="paper",
        dtype="float32",
        num_envs=32,
        num_steps=512,
        minibatches=8,
        total_steps=163_840_000,
        decay_steps=163_840_000,
        learning_rate_start=2.75e-4,
        bootstrap_time_limits=False,
        memory_gradient=False,
        block_updates=20,
        checkpoint_updates=500,
        keep_checkpoints=0,
    ),
    "throughput": Config(),
    "cpu": Config(
        scale="cpu",
        memory_size=128,
        hidden_size=128,
        dtype="float32",
        unroll=1,
        num_envs=64,
        minibatches=8,
        total_steps=2_500_000,
        learning_rate_start=1.5e-3,
        block_updates=20,
        checkpoint_updates=100,
    ),
}
"""Settings of every scale of the training command, by name."""
