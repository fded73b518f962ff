"""Settings of a GRPO run: one frozen dataclass and two scales that set its defaults."""

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

from baselines.config import check_numbers, check_seed, parse_options
from baselines.errors import ConfigError, RunError

Scale = Literal["cpu", "gpu", "pretrained"]
Context = Literal["turn", "chat"]
Credit = Literal["episode", "text"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that determine what a run learns. The defaults are those of the `cpu` scale.

    Comparison ignores settings of the duration and the reports of a run.

    Raises:
        ConfigError: if a value is out of range.
    """

    scale: Scale = "cpu"
    """Source of the defaults: a small model for two CPU cores, a larger one for a GPU, or a pretrained one for a GPU
    with 80 GB, which is the default with --model.
    """
    env: str = "FrozenLake-v0"
    """Id of an environment with a text interface."""
    options: tuple[str, ...] = ("dialect=ragen",)
    """Options of the environment and its text interface as NAME=VALUE, values in JSON or words: dialect=ragen"""
    replies: tuple[str, ...] = tuple(f"<answer>{word}</answer>" for word in ("Left", "Down", "Right", "Up"))
    """Valid replies, in the format of the system prompt. The warm start imitates random ones of them."""
    max_turns: int = 20
    """Maximum number of turns of an episode, including invalid replies."""
    train_levels: int = 100_000
    """Number of training seeds; levels with a held-out first text are removed."""
    held_out_levels: int = 500
    """Number of held-out levels for evaluation."""
    new_openings: bool = True
    """Hold out one first text in eight, and train on no level that starts with it. Turn it off if first texts do not
    distinguish levels.
    """

    context: Context = "turn"
    """Context of a reply: the newest text only, or the system prompt and all texts and replies so far."""
    prompt_tokens: int = 512
    """Maximum number of tokens of a context, from its end; lower if the contexts of the warm start are shorter."""
    reply_tokens: int = 8
    """Maximum number of tokens of a reply, including its end."""
    model: str = ""
    """Folder or GGUF file of a pretrained model of the Llama architecture, whose chats are trained in Frozen Lake with
    --options dialect=ragen; empty for a new model.
    """
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the computation of a pretrained model; its parameters are trained in float32."""
    width: int = 64
    """Number of units of the model's residual stream."""
    layers: int = 2
    """Number of layers of the model."""
    heads: int = 4
    """Number of attention heads of a layer."""

    warm_updates: int = 120
    """Number of gradient steps of the warm start."""
    warm_batch: int = 128
    """Replies per gradient step of the warm start."""

    groups: int = 64
    """Number of levels per update."""
    group_size: int = 8
    """Number of episodes per level, which are compared with each other."""
    updates: int = dataclasses.field(default=2000, compare=False)
    """Number of updates of the run, unless the time limit ends it first."""
    minutes: float = dataclasses.field(default=13.0, compare=False)
    """Time limit of this call in minutes, including warm start and compilation; 0 means no limit."""
    gamma: float = 0.9
    """Discount per turn; it rewards shorter episodes."""
    credit: Credit = "text"
    """Comparison that gives the advantage: the return of the whole episode among the episodes of its level, or the
    return from a turn on among the turns of the level that answered the same text.
    """
    epochs: int = 1
    """Number of passes over the turns of an update."""
    minibatch: int = 256
    """Number of turns in a gradient step."""
    clip_low: float = 0.2
    """Largest distance of a probability ratio below 1 before it is clipped."""
    clip_high: float = 0.28
    """Largest distance of a probability ratio above 1; larger than clip_low, so that rare replies can get likelier."""
    kl: float = 0.3
    """Weight of the KL penalty to the warm start, which preserves the format of replies and the exploration."""
    learning_rate: float = 1e-3
    """Learning rate of Adam, constant after a linear warm-up in the warm start."""
    max_grad_norm: float = 1.0
    """Maximum global norm of the gradient; larger gradients are scaled down to it."""
    sample_batch: int = 128
    """Number of replies sampled per jitted call."""

    seed: int = 0
    """Random seed."""
    eval_updates: int = dataclasses.field(default=25, compare=False)
    """Updates between two evaluations on held-out levels."""
    eval_levels: int = dataclasses.field(default=128, compare=False)
    """Number of held-out levels in each of these evaluations."""
    checkpoint_updates: int = dataclasses.field(default=25, compare=False)
    """Updates between two checkpoints."""
    keep_checkpoints: int = dataclasses.field(default=2, compare=False)
    """Number of newest checkpoints to keep on disk; 0 keeps all."""

    def __post_init__(self) -> None:
        check_numbers(self, _LEAST)
        if self.width % self.heads:
            raise ConfigError(f"width: expected a multiple of heads {self.heads}, got {self.width}")
        if not self.replies:
            raise ConfigError("replies: expected at least one, got none. Use the format of the system prompt.")
        check_seed(self.seed)
        if self.gamma > 1:
            raise ConfigError(f"gamma: expected a number from 0 to 1, got {self.gamma}")
        parse_options(self.options)

    @property
    def sessions(self) -> int:
        """Number of episodes of one update."""
        return self.groups * self.group_size

    @property
    def session_options(self) -> dict[str, Any]:
        """Options of a session. Levels are fresh; with a level buffer, held-out seeds would give training levels."""
        return {"max_turns": self.max_turns, "levels": "fresh", **parse_options(self.options)}


_LEAST = {
    **dict.fromkeys(("warm_updates", "seed", "keep_checkpoints"), 0),
    "reply_tokens": 2,  # the first token is sampled before the scan over the rest
    "group_size": 2,  # advantages need at least two episodes
}

SCALES: dict[str, Settings] = {
    "cpu": Settings(),
    "gpu": Settings(
        scale="gpu",
        width=192,
        layers=4,
        warm_updates=300,
        groups=256,
        minibatch=1024,
        sample_batch=1024,
        minutes=8.5,
        kl=0.2,
        learning_rate=5e-4,
    ),
    "pretrained": Settings(
        scale="pretrained",
        dtype="bfloat16",
        max_turns=10,
        train_levels=4096,
        held_out_levels=256,
        reply_tokens=12,
        warm_updates=200,
        warm_batch=160,
        groups=64,
        minibatch=640,
        minutes=8.5,
        kl=0.02,
        learning_rate=2e-5,
        eval_updates=10,
        eval_levels=256,
        checkpoint_updates=50,
        keep_checkpoints=1,
    ),
}


def read_settings(path: Path) -> Settings:
    """Read the settings of a run.

    Raises:
        RunError: if the folder holds no readable GRPO run.
    """
    try:
        found = json.loads((path / "config.json").read_text())
        lists = {name: tuple(value) for name, value in found.items() if isinstance(value, list)}
        return Settings(**{**found, **lists})
    except OSError as error:
        raise RunError(f"{path}: expected a run with config.json, got {error.strerror}. Name another.") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise RunError(f"{path / 'config.json'}: expected a GRPO run of this version ({error})") from error


def differences(settings: Settings, other: Settings) -> list[str]:
    """Return the names of the settings in which two runs differ and that change what they learn."""
    names = [field.name for field in dataclasses.fields(Settings) if field.compare]
    return [name for name in names if getattr(settings, name) != getattr(other, name)]
