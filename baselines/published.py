"""Results of the Memory Gym papers, and the paper's names of our games and agents."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from baselines.config import Config
from baselines.presets import AGENTS, TASKS

_PUBLISHED = Path(__file__).parent / "published.json"
_PLAIN = {"reconstruction": 0.0, "ground_truth_head": 0.0, "residual": False, "encoder": "nature"}


def published() -> dict[str, dict[str, tuple[list[float], list[float]]]]:
    """Return steps (in millions) and values of the published curves, by task and agent."""
    curves = json.loads(_PUBLISHED.read_text())["curves"]
    return {
        task: {agent: (curve["steps_millions"][: len(values)], values) for agent, values in curve["agents"].items()}
        for task, curve in curves.items()
    }


def published_on(task: str, agent: str) -> str:
    """Return the split of a published curve."""
    return "training" if agent in json.loads(_PUBLISHED.read_text())["on_training_levels"].get(task, ()) else "held out"


def published_beside(task: str, agents: Sequence[str]) -> list[str]:
    """Return the agents whose published curves are drawn beside ours: the same agents, else GRU."""
    curves = published().get(task, {})
    return [agent for agent in agents if agent in curves] or [agent for agent in ("GRU",) if agent in curves]


def task_of(config: Config) -> str:
    """Return the paper's name of the game with these options, else id and options."""
    mine = _resolved(config.env, config.env_options)
    for task in TASKS.values():
        names = (task.game_preset, f"{task.game_preset}-transformer")[: 1 + task.is_endless]
        if task.env == config.env and any(mine == _resolved(task.env, {"preset": name}) for name in names):
            return task.title
    return " ".join((config.env, *config.options))


def _resolved(env_id: str, options: dict[str, Any]) -> dict[str, Any]:
    import jaxgym  # importing it starts a JAX backend, which a table does not need

    if env_id not in jaxgym.registered_envs():
        return options
    given = dict(options)
    preset = given.pop("preset", None)
    presets = jaxgym.presets(env_id)
    values = {name: option.default for name, option in jaxgym.spec_of(env_id).all_options.items()}
    values |= dict(presets[preset].options) if preset in presets else {}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in (values | given).items()}


def agent_of(config: Config) -> str:
    """Return the paper's name of the agent, else its memory and size."""
    fitting = [
        agent
        for agent in AGENTS.values()
        if all(getattr(config, name) == value for name, value in {**_PLAIN, **agent.changes}.items())
    ]
    sized = config.memory in ("gru", "lstm", "mingru") and config.memory_size != Config.memory_size
    exact = [agent for agent in fitting if not sized or "memory_size" in agent.changes]
    if exact:
        return max(exact, key=lambda agent: len(agent.changes)).title
    return f"{config.memory}-{config.memory_size}"
