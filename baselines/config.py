"""Settings of a training run: one frozen dataclass, and the three scales that set its defaults.

Sources of the numbers: Pleines et al., *Memory Gym*, JMLR 26(6), 2025 (arXiv 2309.17207) for `paper`; our own trials
for `throughput` and `cpu`.
"""

import dataclasses
import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args

import jaxgym
from baselines.errors import ConfigError
from jaxgym.errors import OptionError

Scale = Literal["paper", "throughput", "cpu"]
Dtype = Literal["float32", "bfloat16"]
EncoderName = Literal["nature", "impala"]
Entry = TypeVar("Entry")

INT32_END = 2**31
"""Numbers are below it, and so are seeds: programs count, and make keys, in int32."""

# They change how long a run lasts or how it is reported, never what it has learned by a given update.
FREE_ON_RESUME = frozenset(
    {"total_steps", "decay_steps", "checkpoint_updates", "keep_checkpoints", "eval_repeats", "eval_every"}
)


@dataclasses.dataclass(frozen=True)
class Config:
    """Everything that decides what a run learns; defaults are those of the `throughput` scale.

    Raises:
        ConfigError: when a value is out of range, or the lanes do not divide into the minibatches.
    """

    scale: Scale = "throughput"
    """Where the defaults come from: as published, large batches on an accelerator, or small on a CPU."""

    preset: str = ""
    """Name of a published or a large-batch run, which sets the defaults in place of a scale; --list shows all."""
    env: str = "MortarMayhem-Grid-v0"
    """Id of the environment."""
    options: tuple[str, ...] = ()
    """Options of the environment as NAME=VALUE, values in JSON or bare words: command_count=[3] observation=symbolic"""
    train_levels: int = 100_000
    """Training level seeds kept as a bank; 0 samples a fresh training level at every reset."""
    held_out_levels: int = 50
    """Level seeds that are scored and never trained on."""
    eval_repeats: int = 1
    """Episodes per level when scoring; the policy is sampled, so they differ."""
    eval_every: int = 0
    """Blocks between two evaluations on the held-out levels during training; 0 evaluates at the end alone."""

    memory: str = "gru"
    """What the agent remembers by: clock (the step of the episode alone), gru, gtrxl, lru, lstm, mingru, none, stack4
    (frames in color), stack16 (in gray) or trxl; or a cell of your own as my_package.module:MyCell."""
    memory_size: int = 512
    """Units of the memory."""
    memory_layers: int = 0
    """Layers of the memory; 0 means what suits it: 1 for gru and lstm, 2 for lru and mingru, 3 for trxl and gtrxl."""
    memory_heads: int = 4
    """Attention heads of trxl and gtrxl."""
    memory_window: int = 256
    """Steps that trxl and gtrxl can look back."""
    memory_positions: bool = True
    """Tell trxl and gtrxl at which step of the episode something was; off in the published Mystery Path on a grid."""
    memory_gate_bias: float = 2.0
    """How far towards the identity the gates of gtrxl start; published are runs with 0 and with 2."""
    memory_gradient: bool = True
    """Let trxl and gtrxl learn what a step of the same rollout should have kept; off as published."""
    residual: bool = False
    """Add what goes into the memory to what comes out of it, for one layer of gru or lstm as wide as its input."""
    encoder: EncoderName = "nature"
    """Layers that frames go through: three convolutions as published, or the fifteen with residuals of IMPALA."""
    embed: bool = True
    """A linear layer between what the encoder sees and the memory; off in the agents of Memory Gym's first paper."""
    last_action_reward: bool = False
    """Show the agent its last action and the reward of it, beside the observation."""
    hidden_size: int = 512
    """Units of the embedding, of the body and of the layer before each head."""
    dtype: Dtype = "bfloat16"
    """Type of activations; parameters, memory states, log-probabilities and losses stay in float32."""
    unroll: int = 4
    """Steps of the recurrence that one loop iteration holds: more compile time, less overhead."""

    num_envs: int = 1024
    """Environments (lanes) that are stepped together."""
    num_steps: int = 64
    """Steps each lane makes between two updates; gradients through time end at this border."""
    bptt: int = 0
    """Cut rollouts into sequences of so many steps, each learned from the memory that it began with; 0 learns whole
    rollouts. Shorter ones are faster and mix better, but gradients end at more borders."""
    epochs: int = 3
    """Passes over each rollout."""
    minibatches: int = 16
    """Gradient steps per pass; each takes whole sequences."""
    total_steps: int = 50_000_000
    """Environment steps of the run, rounded up to whole blocks."""
    decay_steps: int = 0
    """Environment steps over which learning rate and entropy coefficient fall to their ends; 0 means the whole run."""
    block_updates: int = 16
    """Updates in one jitted call; metrics, checkpoints and the progress bar come between calls."""

    gamma: float = 0.995
    """Discount per step."""
    gae_lambda: float = 0.95
    """Weight of longer returns in the advantage estimate."""
    clip: float = 0.1
    """Clip range of the probability ratio and of the value change."""
    value_coef: float = 0.5
    """Weight of the squared value error."""
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
    """Largest global norm of the gradient; larger ones are scaled down to it."""
    normalise_advantage: bool = False
    """Standardise advantages per minibatch. Off: with sparse rewards it blows near-zero advantages up to unit size, and
    Memory Gym's authors found Searing Spotlights unlearnable with it."""
    joint_ratio: bool = False
    """One probability ratio for all action branches, instead of one per branch with the objectives averaged."""
    reconstruction: float = 0.0
    """Weight of the error in drawing each frame from the memory's output (published: 0.1); 0 leaves the decoder out."""
    reconstruction_share: float = 1.0
    """Share of each minibatch's sequences whose frames are drawn; drawing a quarter of them costs a quarter."""
    ground_truth_head: float = 0.0
    """Weight of the error in telling the hidden truth of an endless game from the memory's output (published: 0.1); 0
    leaves the head out."""
    bootstrap_time_limits: bool = True
    """Value the observation at a time limit; off treats the limit as the end of the task, as published."""

    seed: int = 0
    """First random seed."""
    num_seeds: int = 1
    """Independent runs with consecutive seeds, trained side by side by vmap."""
    devices: int = 1
    """Devices that share one training: its environments, or its seeds where there are several. Environments are drawn
    and shuffled on each device by itself, so that other numbers of devices give other, equally good runs."""

    checkpoint_updates: int = 64
    """Updates between two checkpoints, rounded up to whole blocks."""
    keep_checkpoints: int = 3
    """Newest checkpoints that stay on disk; 0 keeps all."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ConfigError(f"{field.name} is {value}, but has to be a finite number")
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}, but has to be at least 1")
        for name in _NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}, but must not be negative")
        for name in (*_POSITIVE, *_NOT_NEGATIVE):
            value = getattr(self, name)
            if isinstance(value, int) and value >= INT32_END and name not in _STEPS_IN_ALL:
                raise ConfigError(f"{name} is {value}, but has to be below {INT32_END}: programs count in int32")
        for name in _SHARES:
            if getattr(self, name) > 1:
                raise ConfigError(f"{name} is {getattr(self, name)}, but has to be from 0 to 1")
        check_seed(self.seed, self.num_seeds)
        shared = "num_envs" if self.num_seeds == 1 else "num_seeds"
        if getattr(self, shared) % self.devices:
            raise ConfigError(
                f"{shared} is {getattr(self, shared)} and does not divide among {self.devices} devices: "
                f"choose {shared} as a multiple of devices"
            )
        if self.num_steps % self.sequence_steps:
            raise ConfigError(
                f"rollouts of {self.num_steps} steps do not divide into sequences of {self.bptt}: "
                "choose num_steps as a multiple of bptt"
            )
        if self.num_sequences % self.minibatches:
            sequences = "environments" if not self.bptt else "sequences of steps"
            where, times = (" of each device", " times devices") if self.num_lanes < self.num_envs else ("", "")
            raise ConfigError(
                f"{self.num_sequences} {sequences}{where} do not divide into {self.minibatches} minibatches: "
                f"choose num_envs as a multiple of minibatches{times}"
            )
        parse_options(self.options)

    @property
    def batch_steps(self) -> int:
        """Environment steps of one update of one seed."""
        return self.num_envs * self.num_steps

    @property
    def is_split(self) -> bool:
        """Whether the environments of one run are spread over devices."""
        return self.devices > 1 and self.num_seeds == 1

    @property
    def num_lanes(self) -> int:
        """Environments of one seed on one device."""
        return self.num_envs // self.devices if self.is_split else self.num_envs

    @property
    def sequence_steps(self) -> int:
        """Steps of the sequences that are learned from."""
        return self.bptt or self.num_steps

    @property
    def num_sequences(self) -> int:
        """Sequences in one rollout of the lanes of one seed on one device."""
        return self.num_lanes * (self.num_steps // self.sequence_steps)

    @property
    def decay_length(self) -> int:
        """Environment steps over which the schedules fall."""
        return self.decay_steps or self.total_steps

    @property
    def num_blocks(self) -> int:
        """Jitted calls of the whole run."""
        return -(-self.total_steps // (self.batch_steps * self.block_updates))

    @property
    def trained_steps(self) -> int:
        """Environment steps of one seed in the whole run: `total_steps`, made up to whole blocks."""
        return self.num_updates * self.batch_steps

    @property
    def num_updates(self) -> int:
        """Updates of the whole run."""
        return self.num_blocks * self.block_updates

    @property
    def env_options(self) -> dict[str, Any]:
        """Options of the environment as keyword arguments of `jaxgym.make`."""
        return parse_options(self.options)


_POSITIVE = (
    "num_envs",
    "num_steps",
    "epochs",
    "minibatches",
    "total_steps",
    "block_updates",
    "num_seeds",
    "devices",
    "unroll",
    "memory_size",
    "memory_heads",
    "memory_window",
    "hidden_size",
    "held_out_levels",
    "eval_repeats",
    "checkpoint_updates",
)
_NOT_NEGATIVE = (
    "eval_every",
    "train_levels",
    "memory_layers",
    "bptt",
    "decay_steps",
    "keep_checkpoints",
    "gamma",
    "gae_lambda",
    "clip",
    "value_coef",
    "entropy_start",
    "entropy_end",
    "learning_rate_start",
    "learning_rate_end",
    "weight_decay",
    "max_grad_norm",
    "reconstruction",
    "reconstruction_share",
    "ground_truth_head",
    "memory_gate_bias",
)
_STEPS_IN_ALL = {"total_steps", "decay_steps"}  # counted by the host
_SHARES = ("gamma", "gae_lambda", "reconstruction_share")


def check_seed(seed: int, count: int = 1) -> None:
    """Refuses what is no random seed.

    Args:
        seed: the first one.
        count: how many consecutive seeds there are.

    Raises:
        ConfigError: when one of them is negative or not below `INT32_END`.
    """
    if not 0 <= seed <= INT32_END - count:
        several = f" with {count} seeds" if count > 1 else ""
        raise ConfigError(f"seed is {seed}, but has to be from 0 to {INT32_END - count}{several}")


def parse_options(options: Iterable[str]) -> dict[str, Any]:
    """Return the keyword arguments that NAME=VALUE words give, see `jaxgym.parse_options`.

    Raises:
        ConfigError: when a word has no name or no equals sign, a name comes twice, or is that of levels, which have
            settings of their own.
    """
    try:
        parsed = jaxgym.parse_options(options)
    except OptionError as error:
        raise ConfigError(str(error)) from error
    if "levels" in parsed:
        raise ConfigError("option 'levels' is what train_levels and held_out_levels say: leave it out")
    return parsed


def from_name(kind: str, name: str, table: Mapping[str, Entry]) -> Entry:
    """The entry of a table.

    Raises:
        ConfigError: when the table has no such name; the message has the allowed names and the nearest one.
    """
    if name in table:
        return table[name]
    near = [allowed for allowed in table if allowed.lower() == name.lower()] or difflib.get_close_matches(
        name, table, n=1
    )
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"{kind} {name!r} is unknown, allowed are {', '.join(sorted(table))}{hint}")


def check_lists(flags: Iterable[str], arguments: Sequence[str]) -> None:
    """Refuses flags of several values that are given twice, of which the parser would drop the first values.

    Raises:
        ConfigError: when one is.
    """
    for flag in flags:
        if sum(word.partition("=")[0] == flag for word in arguments) > 1:
            raise ConfigError(f"{flag} is given twice: give all its values behind one")


def differences(config: Config, other: Config) -> list[str]:
    """Names of the settings in which two configs would learn something else."""
    names = [field.name for field in dataclasses.fields(Config) if field.name not in FREE_ON_RESUME]
    changed = [name for name in names if getattr(config, name) != getattr(other, name)]
    return changed + ["decay_steps"] * (config.decay_length != other.decay_length)


def to_json(config: Config) -> dict[str, Any]:
    """Settings as plain values, for `from_json`."""
    return dataclasses.asdict(config)


def from_json(settings: Any) -> Config:
    """The config that `to_json` wrote.

    Raises:
        ConfigError: when it is none, when a setting is not known to this version, or has a value of another type or out
            of range.
    """
    if not isinstance(settings, dict) or "env" not in settings:
        raise ConfigError("the config is no object of settings with an env among them")
    unknown = settings.keys() - {field.name for field in dataclasses.fields(Config)}
    if unknown:
        raise ConfigError(f"the config has settings that this version does not know: {', '.join(sorted(unknown))}")
    for name, value in settings.items():
        wanted = "list" if name == "options" else type(getattr(Config, name)).__name__
        given = type(value).__name__
        if given != wanted and (given, wanted) != ("int", "float"):
            raise ConfigError(f"{name} is {value!r} in the config, but has to be of type {wanted}")
        if value not in _CHOICES.get(name, (value,)):
            raise ConfigError(f"{name} is {value!r} in the config, but has to be one of {', '.join(_CHOICES[name])}")
    return Config(**{**settings, "options": tuple(map(str, settings.get("options", ())))})


_CHOICES: dict[str, tuple[str, ...]] = {
    "scale": get_args(Scale),
    "encoder": get_args(EncoderName),
    "dtype": get_args(Dtype),
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
