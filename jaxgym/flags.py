"""Flags of the commands of `jaxgym`."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

_Id = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ID")]
_Options = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME=VALUE ...]")]


class FailureError(RuntimeError):
    """Missing requirement of a command."""


@dataclasses.dataclass(frozen=True)
class List:
    """List the ids with their presets, or the options of one id."""

    env_id: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[ID]")] = None
    """Id or short name of an environment, to list its options and presets.
    Or a pattern such as 'BabyAI-*', to list the ids that match it."""


@dataclasses.dataclass(frozen=True)
class LevelFlags:
    """Environment and level of a command that plays one level."""

    env_id: _Id
    """Id or short name of an environment, such as mystery_path_grid."""
    options: _Options = ()
    """Options of the environment, NAME=VALUE, with VALUE in JSON or a plain string; preset=NAME selects a preset."""
    seed: int = 0
    """Seed of the level: training levels below 2^31, held-out levels from 2^31."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Show(LevelFlags):
    """Write the first frame of a level as an image."""

    out: Path
    """File to write, NAME.png."""
    ground_truth: bool = False
    """Show hidden information."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record(LevelFlags):
    """Write a video of an episode. The seed is that of the level and of the policy."""

    policy: str
    """random, noop, expert, or a trained agent.
    A trained agent takes no options: the folder of a run of baselines.train, or zoo for the agent of the checkout."""
    out: Path
    """File to write, NAME.gif or NAME.mp4."""
    steps: int = 512
    """Maximum number of steps."""
    ground_truth: bool = False
    """Show hidden information."""
    fps: int = 25
    """Frames per second."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Play(LevelFlags):
    """Play in a window; needs pygame and a display. Page up and page down change the level."""

    ground_truth: bool = False
    """Show hidden information."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Demos:
    """Write episodes of the scripted expert, as chats for fine-tuning or as a Minari dataset for offline RL."""

    env_id: _Id
    """Id or short name of an environment with an expert, such as frozen_lake."""
    options: _Options = ()
    """Options of the environment, NAME=VALUE, with VALUE in JSON or a plain string; preset=NAME selects a preset.
    For chats, also options of the text interface and of sessions."""
    format: Literal["chat", "minari"]
    """chat: one JSON object with the messages of an episode on each line. minari: a dataset of Minari."""
    out: Path
    """NAME.jsonl for chat; a new folder NAME-v0 for minari."""
    episodes: int = 100
    """Number of episodes, each on another level."""
    split: Literal["train", "heldout"] = "train"
    """Levels: training or held-out levels."""
    start: int = 0
    """Number of the first level in the split."""
    steps: int = 512
    """Maximum number of steps of an episode."""


@dataclasses.dataclass(frozen=True)
class Talk(LevelFlags):
    """Play as text, as a language model would: each line of the input is a reply.

    The environment needs a text interface, whose options are accepted too.
    """


@dataclasses.dataclass(frozen=True)
class Rollout:
    """Play text episodes with a language model, an expert or a random policy, and save the chats."""

    env: tuple[str, ...] = ()
    """Environments with a text interface, by id or short name, played in turn.
    NAME=VALUE after them sets an option of all."""
    rows: Path | None = None
    """Dataset to play instead: a file with {"env_config": {"name": ..., "seed": ...}} on each line."""
    model: str = ""
    """Policy: expert, random, or the URL of an OpenAI-compatible endpoint."""
    hf: Path | None = None
    """Policy: the folder of a model in Hugging Face's format."""
    model_name: str | None = None
    """Name of the model at the endpoint; by default the first that it lists."""
    episodes: int | None = None
    """Number of episodes; by default 128, or the number of rows."""
    seed: int = 0
    """Seed of the first level: training levels below 2^31, held-out levels from 2^31."""
    out: Path | None = None
    """Folder for the chats; run the same command again to continue a run."""
    max_turns: int | None = 512
    """Maximum number of turns of an episode; with None some episodes never end."""
    history_turns: int | None = None
    """Number of the last turns that the model sees, in addition to the first one; by default all."""
    history_images: int | None = None
    """Number of the last turns whose images the model sees; by default those of all turns that it sees."""
    concurrency: int = 64
    """Number of concurrent episodes."""
    turn_seconds: float = 120.0
    """Timeout of a reply in seconds."""
    retries: int = 3
    """Number of retries of a failed reply."""
    temperature: float = 1.0
    """Sampling temperature."""
    max_tokens: int = 512
    """Maximum number of tokens of a reply."""
    reward_funcs: tuple[str, ...] = ()
    """Reward functions in addition to the environment's reward: format, length."""
    reward_weights: tuple[float, ...] | None = None
    """Weights of the reward functions, followed by the weight of the environment's reward."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """Write data rows for a trainer of language models: the environment, the level and the options of each episode."""

    game: tuple[str, ...]
    """Environments with a text interface, by id or short name, which alternate.
    NAME=VALUE after them sets an option of all."""
    format: Literal["verl", "skyrl", "trl", "swift", "verifiers", "nemo", "slime", "vagen", "areal"]
    """Trainer. vagen: a YAML file of environments. verifiers: a TOML file. Others: one JSON object on each line."""
    split: Literal["train", "heldout"] = "train"
    """Levels: training or held-out levels."""
    rows: int = 64
    """Number of rows; all environments play the same levels."""
    start: int = 0
    """Number of the first level in the split."""
    out: Path | None = None
    """File to write; by default the standard output."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Eval:
    """Evaluate an agent on fixed held-out levels of rising difficulty, and measure its memory span."""

    tasks: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[TASK ...]")] = ("mortar_mayhem",)
    """Tasks: mortar_mayhem, mystery_path, searing_spotlights, babyai, frozen_lake, sudoku, textcraft."""
    model: str = ""
    """Agent: the URL of an OpenAI-compatible endpoint, expert or random."""
    hf: Path | None = None
    """Agent: the folder of a model in Hugging Face's format."""
    agent: tuple[str, ...] = ()
    """Agent: a Python class, module:Class. NAME=VALUE after it is an argument of the class."""
    model_name: str | None = None
    """Name of the model at the endpoint; by default the first that it lists."""
    out: Path
    """Folder for the card, the report, the plot and the chats; run the same command again to continue."""
    episodes: int = 20
    """Number of episodes of each difficulty."""
    difficulties: tuple[int, ...] = ()
    """Numbers of the difficulties; by default all."""
    observation: Literal["text", "image", "both"] = "text"
    """Form of the observations."""
    history_turns: int | None = None
    """Number of the last turns that the model sees, in addition to the first one; by default all."""
    history_images: int | None = None
    """Number of the last turns whose images the model sees; by default those of all turns that it sees."""
    temperature: float = 1.0
    """Sampling temperature."""
    top_p: float | None = None
    """Probability mass of nucleus sampling; by default that of the model."""
    max_tokens: int = 512
    """Maximum number of tokens of a reply."""
    seed: int | None = None
    """Seed of the sampling; by default none. It does not change the levels."""
    max_turns: int | None = 512
    """Maximum number of turns of an episode."""
    concurrency: int = 16
    """Number of concurrent episodes."""
    turn_seconds: float = 120.0
    """Timeout of a reply in seconds."""
    retries: int = 3
    """Number of retries of a failed reply."""
    backoff_seconds: float = 1.0
    """Waiting time before the first retry in seconds, doubled for each further retry."""
    context_tokens: int | None = None
    """Tokens of the model's context: older turns are dropped if a chat and a reply do not fit; by default no limit."""
    image_tokens: int = 256
    """Tokens of an image, for --context-tokens."""
    tokenizer: Path | None = None
    """Folder of the tokenizer that counts tokens, for --context-tokens.
    By default that of --hf, or else an estimate of one token for 3 bytes."""
    prices: tuple[float, float] | None = None
    """US dollars for a million tokens of prompts, and of replies."""


@dataclasses.dataclass(frozen=True)
class Serve:
    """Serve text episodes over OpenEnv or AgentGym; see `jaxgym serve --help`."""

    argv: tyro.conf.Positional[tuple[str, ...]] = ()
    """The protocol and its flags, such as `openenv --env sudoku`."""
