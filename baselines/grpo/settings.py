"""Settings of a GRPO run: one frozen dataclass, and the two scales that set its defaults."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any, Literal

from baselines.config import check_seed, parse_options
from baselines.errors import ConfigError, RunError

Scale = Literal["cpu", "gpu"]
Context = Literal["turn", "chat"]
Credit = Literal["episode", "text"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that decides what a run learns; defaults are those of the `cpu` scale.

    Settings are equal if they learn the same: how long a run lasts and how it is reported is not compared.

    Raises:
        ConfigError: when a value is out of range.
    """

    scale: Scale = "cpu"
    """Where the defaults come from: a small model for two CPU cores, or a larger one for a GPU."""
    env: str = "FrozenLake-v0"
    """Id of an environment that has words."""
    options: tuple[str, ...] = ("dialect=ragen",)
    """Options of the environment and of its words as NAME=VALUE, values in JSON or bare words: size=8 dialect=ragen"""
    replies: tuple[str, ...] = tuple(f"<answer>{word}</answer>" for word in ("Left", "Down", "Right", "Up"))
    """Replies in the form that the instructions ask for; the warm start imitates random ones of these."""
    max_turns: int = 20
    """Turns after which an episode ends, refused replies included."""
    train_levels: int = 100_000
    """Training level seeds; those with a first text that is kept for scoring are left out."""
    held_out_levels: int = 500
    """Levels that are scored and never trained on."""
    new_openings: bool = True
    """Keep one first text in eight for scoring, and train on no level that begins with it; off where first texts do not
    tell levels apart."""

    context: Context = "turn"
    """What a turn is answered from: the newest text alone, or instructions and all texts and replies so far."""
    prompt_tokens: int = 512
    """Most tokens of a context, from its end; fewer where all contexts of the warm start are shorter."""
    reply_tokens: int = 8
    """Most tokens of a reply, its end included."""
    width: int = 64
    """Units of the model's residual stream."""
    layers: int = 2
    """Layers of the model."""
    heads: int = 4
    """Attention heads of a layer."""

    warm_updates: int = 120
    """Gradient steps of the warm start."""
    warm_batch: int = 128
    """Replies in each of them."""

    groups: int = 64
    """Levels in one update."""
    group_size: int = 8
    """Episodes of each level, which are compared with each other."""
    updates: int = dataclasses.field(default=2000, compare=False)
    """Updates of the run, unless the time is up before."""
    minutes: float = dataclasses.field(default=13.0, compare=False)
    """Minutes after which this call stops learning, what came before and compiling included; 0 means none."""
    gamma: float = 0.9
    """Discount per turn of an episode's rewards: shorter ways are better."""
    credit: Credit = "text"
    """What a turn is compared by: how its whole episode went beside others of its level, or how the game went on from
    it beside other turns of the level that answered the same text."""
    epochs: int = 1
    """Passes over the turns of an update."""
    minibatch: int = 256
    """Turns in a gradient step."""
    clip_low: float = 0.2
    """How far a probability ratio may fall below 1 before it stops to count."""
    clip_high: float = 0.28
    """How far it may rise above 1; more than the other, so that rare replies can grow."""
    kl: float = 0.3
    """Weight of the distance from the warm start, which holds the form of replies and keeps trying all moves."""
    learning_rate: float = 1e-3
    """Learning rate of Adam, which rises over the first steps of the warm start and then stays."""
    max_grad_norm: float = 1.0
    """Largest global norm of the gradient; larger ones are scaled down to it."""
    sample_batch: int = 128
    """Replies that are sampled in one jitted call."""

    seed: int = 0
    """Random seed."""
    eval_updates: int = dataclasses.field(default=25, compare=False)
    """Updates between two scores on held-out levels, for the curve."""
    eval_levels: int = dataclasses.field(default=128, compare=False)
    """Held-out levels of each of these."""
    checkpoint_updates: int = dataclasses.field(default=25, compare=False)
    """Updates between two checkpoints."""
    keep_checkpoints: int = dataclasses.field(default=2, compare=False)
    """Newest checkpoints that stay on disk; 0 keeps all."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            least = _LEAST.get(field.name, 1)
            if isinstance(value, int | float) and not (math.isfinite(value) and value >= least):
                raise ConfigError(f"{field.name} is {value}, but has to be a finite number from {least} up")
        if self.width % self.heads:
            raise ConfigError(f"width {self.width} does not divide into {self.heads} heads: choose a multiple")
        if not self.replies:
            raise ConfigError("replies is empty: give some in the form that the instructions ask for")
        check_seed(self.seed)
        if self.gamma > 1:
            raise ConfigError(f"gamma is {self.gamma}, but has to be from 0 to 1")
        parse_options(self.options)

    @property
    def sessions(self) -> int:
        """Episodes of one update."""
        return self.groups * self.group_size

    @property
    def session_options(self) -> dict[str, Any]:
        """Options of sessions, of the environment's included; a bank would give held-out seeds training levels."""
        return {"max_turns": self.max_turns, "levels": "fresh", **parse_options(self.options)}


_LEAST = {
    **dict.fromkeys(("warm_updates", "minutes", "gamma", "clip_low", "clip_high", "kl"), 0),
    **dict.fromkeys(("learning_rate", "max_grad_norm", "seed", "keep_checkpoints", "new_openings"), 0),
    "reply_tokens": 2,  # a scan over the tokens after the first
    "group_size": 2,  # one episode has none to be compared with
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
}


def read_settings(path: Path) -> Settings:
    """The settings of a run.

    Raises:
        RunError: when the folder holds no readable run of this kind.
    """
    try:
        found = json.loads((path / "config.json").read_text())
        lists = {name: tuple(value) for name, value in found.items() if isinstance(value, list)}
        return Settings(**{**found, **lists})
    except OSError as error:
        raise RunError(f"{path} holds no run (config.json cannot be read): name the folder of a run") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise RunError(f"{path / 'config.json'} is of no GRPO run of this version: {error}") from error


def differences(settings: Settings, other: Settings) -> list[str]:
    """Names of the settings in which two runs would learn something else."""
    names = [field.name for field in dataclasses.fields(Settings) if field.compare]
    return [name for name in names if getattr(settings, name) != getattr(other, name)]
