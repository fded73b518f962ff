"""What the commands of `jaxgym` are told, as their flags say it."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

_Positional = tyro.conf.Positional


class FailureError(RuntimeError):
    """Something that a command needs is missing."""


@dataclasses.dataclass(frozen=True)
class List:
    """List the ids with their presets, or the options of one of them."""

    env_id: Annotated[str | None, _Positional] = None
    """Id of an environment, or its short name in words, to see its options and presets."""


@dataclasses.dataclass(frozen=True)
class Show:
    """Write the first picture of a level."""

    env_id: _Positional[str]
    """Id of an environment, or its short name in words."""
    out: Path
    """File to write, NAME.png."""
    options: _Positional[tuple[str, ...]] = ()
    """Options of the environment, NAME=VALUE, values in JSON or bare words; preset=NAME is one too."""
    seed: int = 0
    """Seed of the level: training levels below 2^31, held-out ones from there on."""
    ground_truth: bool = False
    """Show what is hidden."""


@dataclasses.dataclass(frozen=True)
class Record:
    """Write a video of an episode."""

    env_id: _Positional[str]
    """Id of an environment, or its short name in words."""
    policy: str
    """random, noop, expert, the folder of a run of baselines.train, or zoo for the agent that is in the package."""
    out: Path
    """File to write, NAME.gif or NAME.mp4."""
    options: _Positional[tuple[str, ...]] = ()
    """Options of the environment, NAME=VALUE, values in JSON or bare words; those of its run for an agent."""
    seed: int = 0
    """Seed of the level, and of what the policy draws."""
    steps: int = 512
    """Steps after which an episode is cut."""
    ground_truth: bool = False
    """Show what is hidden."""
    fps: int = 25
    """Frames per second."""


@dataclasses.dataclass(frozen=True)
class Play:
    """Play in a window; needs pygame and a display."""

    env_id: _Positional[str]
    """Id of an environment, or its short name in words."""
    options: _Positional[tuple[str, ...]] = ()
    """Options of the environment, NAME=VALUE, values in JSON or bare words; preset=NAME is one too."""
    seed: int = 0
    """Seed of the level; page up and page down change it."""
    ground_truth: bool = False
    """Show what is hidden."""


@dataclasses.dataclass(frozen=True)
class InWords:
    """Play in words, as a language model would: replies are lines of the input."""

    env_id: _Positional[str]
    """Id of an environment that has words, or its short name, such as mystery_path_grid."""
    options: _Positional[tuple[str, ...]] = ()
    """Options of the environment and its words, NAME=VALUE, values in JSON or bare words; preset=NAME is one too."""
    seed: int = 0
    """Seed of the level: training levels below 2^31, held-out ones from there on."""


@dataclasses.dataclass(frozen=True)
class Rollout:
    """Play games in words by a language model, an expert or at random, and keep the chats."""

    env: tuple[str, ...] = ()
    """Games with words, by id or in short; several take turns. Options behind them, NAME=VALUE, are those of all."""
    rows: Path | None = None
    """Rows to play instead: a file with {"env_config": {"name": ..., "seed": ...}} on each line."""
    model: str = ""
    """Who plays: expert, random, or the URL of an OpenAI-compatible endpoint."""
    hf: Path | None = None
    """Who plays: the folder of a model of Hugging Face's format."""
    model_name: str | None = None
    """The model's name at the endpoint; the first that it lists, if not given."""
    episodes: int | None = None
    """Episodes to play; 128, or as many as there are rows, if not given."""
    seed: int = 0
    """Seed of the first level: training levels below 2^31, held-out ones from there on."""
    out: Path | None = None
    """Folder to keep the chats in; a run that was killed is continued from it."""
    max_turns: int | None = 512
    """Turns after which an episode is cut; with None some games and models go on for ever."""
    concurrency: int = 64
    """Episodes at a time."""
    turn_seconds: float = 120.0
    """Seconds after which a reply has failed to come."""
    retries: int = 3
    """Further attempts at a reply."""
    temperature: float = 1.0
    """Temperature of sampling."""
    max_tokens: int = 512
    """The most tokens of a reply."""
    reward_funcs: tuple[str, ...] = ()
    """Rewards beside the game's: format, length."""
    reward_weights: tuple[float, ...] | None = None
    """A weight for each of them, and for the game's reward at the end."""


@dataclasses.dataclass(frozen=True)
class Serve:
    """Serve a game in words to clients of openenv or agentgym; `jaxgym serve --help` tells how."""

    words: _Positional[tuple[str, ...]] = ()
    """The protocol and what it needs, such as `openenv --env sudoku`."""
