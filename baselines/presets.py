"""Named settings: `jmlr/TASK-AGENT` for the published runs, `fast/TASK-AGENT` for large batches, `helm/TASK-AGENT`.

Games, agents and settings of `jmlr` are those of Pleines et al., Memory Gym to Endless Tasks, JMLR 26(6), 2025 (arXiv
2309.17207); the games' options are jaxgym's presets of that name. `fast` has the same games and agents, and minGRU,
with batch sizes and lengths from our own experiments. BabyAI and MiniGrid-Memory have only `fast` presets. `helm` has
games of Pleines et al., Memory Gym, ICLR 2023, for a frozen language model and for a GRU with equal settings.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from baselines.config import SCALES, Config

_UPDATE_STEPS = 16_384
_ENTROPY = {"entropy_start": 1e-3}
_DECAY = 10_000 * _UPDATE_STEPS
_LONG_DECAY = 2 * _DECAY


@dataclasses.dataclass(frozen=True)
class PaperAgent:
    """An agent of the paper: its memory and its losses.

    Attributes:
        title: its name in the paper.
        changes: settings that differ from the defaults.
    """

    title: str
    changes: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class PaperTask:
    """A game with the options of the paper.

    Attributes:
        title: its name in the paper.
        env: id of the environment.
        game_preset: preset of that id; in the endless games, transformers use a preset with a longer name.
        updates: number of updates of the published run, 16 384 steps each.
        window: steps in the attention window of the transformers.
        agents: names of the agents that the paper evaluates on it.
        fast_steps: environment steps of the large-batch run.
        is_endless: whether the game is endless.
        note: text after the id that distinguishes tasks of one environment.
    """

    title: str
    env: str
    game_preset: str
    updates: int
    window: int
    agents: tuple[str, ...]
    fast_steps: int
    is_endless: bool = False
    note: str = ""

    @property
    def label(self) -> str:
        """Environment id and note."""
        return f"{self.env}{self.note and ', ' + self.note}"


_TRXL = {"memory": "trxl", "memory_size": 384, "memory_layers": 3}
_GTRXL = {**_TRXL, "memory": "gtrxl"}
_REC = {"reconstruction": 0.1}
_SLOW = {"learning_rate_end": 1e-4}

AGENTS: dict[str, PaperAgent] = {
    "gru": PaperAgent("GRU", {"memory": "gru"}),
    "gru-384": PaperAgent("GRU-384", {"memory": "gru", "memory_size": 384}),
    "gru-256": PaperAgent("GRU-256", {"memory": "gru", "memory_size": 256}),
    "gru-rec": PaperAgent("GRU+rec", {"memory": "gru", **_REC}),
    "lstm": PaperAgent("LSTM", {"memory": "lstm"}),
    "trxl": PaperAgent("TrXL", _TRXL),
    "trxl-rec": PaperAgent("TrXL+rec", {**_TRXL, **_REC}),
    "trxl-lr": PaperAgent("TrXL LR", {**_TRXL, **_SLOW}),
    "trxl-lr-rec": PaperAgent("TrXL LR+rec", {**_TRXL, **_SLOW, **_REC}),
    "trxl-gt": PaperAgent("TrXL+GT", {**_TRXL, "ground_truth_head": 0.1}),
    "gtrxl-b0": PaperAgent("GTrXL b0", {**_GTRXL, "memory_gate_bias": 0.0}),
    "gtrxl-b2": PaperAgent("GTrXL b2", {**_GTRXL, "memory_gate_bias": 2.0}),
    "gtrxl-b0-rec": PaperAgent("GTrXL b0+rec", {**_GTRXL, "memory_gate_bias": 0.0, **_REC}),
    "gtrxl-b2-rec": PaperAgent("GTrXL b2+rec", {**_GTRXL, "memory_gate_bias": 2.0, **_REC}),
    "stack16": PaperAgent("16-stack", {"memory": "stack16"}),
    "stack4": PaperAgent("4-stack", {"memory": "stack4"}),
    "clock": PaperAgent("pos. enc.", {"memory": "clock"}),
    "none": PaperAgent("PPO", {"memory": "none"}),
    "mingru": PaperAgent("minGRU", {"memory": "mingru"}),
    "mingru-rec": PaperAgent("minGRU+rec", {"memory": "mingru", **_REC}),
}

_ENDLESS_PATH = ("gru", "gru-384", "gru-256", "trxl")
_SHORT = ("gru", "trxl", "stack16", "stack4", "clock", "none")
_LONG = ("gru", "gru-rec", "trxl", "trxl-rec", "lstm", "gtrxl-b0", "gtrxl-b2")
_SPOTLIGHTS = (*("gru", "gru-rec", "trxl", "trxl-rec", "lstm", "gtrxl-b0-rec", "gtrxl-b2-rec"), *_SHORT[2:])
_ENDLESS_MAYHEM = ("gru", "gru-384", "gru-256", "trxl", "trxl-rec", "trxl-lr", "trxl-lr-rec", "trxl-gt")

TASKS: dict[str, PaperTask] = {
    "mmbg": PaperTask("MMActGrid", "MortarMayhemB-Grid-v0", "jmlr2025", 10_000, 79, _SHORT, 56_000_000),
    "mmg": PaperTask("MMGrid", "MortarMayhem-Grid-v0", "jmlr2025", 10_000, 119, _SHORT, 164_000_000),
    "mm": PaperTask("MM", "MortarMayhem-v0", "jmlr2025", 30_000, 275, _LONG, 492_000_000),
    "mpg-on": PaperTask(
        *("MPGrid on", "MysteryPath-Grid-v0", "jmlr2025-visible", 10_000, 96, _SHORT, 100_000_000),
        note="origin and goal shown",
    ),
    "mpg-off": PaperTask(
        *("MPGrid off", "MysteryPath-Grid-v0", "jmlr2025", 10_000, 96, _SHORT, 164_000_000),
        note="origin and goal hidden",
    ),
    "mp": PaperTask("MP", "MysteryPath-v0", "jmlr2025", 25_000, 256, _LONG, 410_000_000),
    "ss": PaperTask("SS", "SearingSpotlights-v0", "jmlr2025", 25_000, 256, _SPOTLIGHTS, 164_000_000),
    "emm": PaperTask("EMM", "Endless-MortarMayhem-v0", "jmlr2025", 50_000, 256, _ENDLESS_MAYHEM, 819_000_000, True),
    "emp": PaperTask("EMP", "Endless-MysteryPath-v0", "jmlr2025", 50_000, 256, _ENDLESS_PATH, 819_000_000, True),
    "ess": PaperTask(
        "ESS", "Endless-SearingSpotlights-v0", "jmlr2025", 50_000, 256, ("gru-rec", "trxl-rec"), 819_000_000, True
    ),
}

# Runs that differ from the others of their task; Searing Spotlights also has a shorter set of runs.
_UPDATES = {("ss", "lstm"): 16_000} | {("ss", agent): 20_000 for agent in _SPOTLIGHTS[5:]}
_FAST_STEPS = {
    ("mmg", "mingru"): 131_000_000,
    ("mmg", "trxl"): 131_000_000,
    ("mm", "trxl-rec"): 380_000_000,
    ("mpg-off", "mingru"): 80_000_000,
    ("memory-s17r", "mingru"): 16_000_000,
    ("memory-s17r", "none"): 26_000_000,
}
_FAST_CHANGES: dict[str, dict[str, Any]] = {"mmbg": {"num_envs": 1024, "num_steps": 64}}
# Entries from before the rollout were computed with older parameters, so transformers get longer rollouts and a lower
# learning rate.
_FAST_TRANSFORMER = {"num_envs": 512, "num_steps": 256, "learning_rate_start": 2.5e-4}
_FAST_TRANSFORMER_CHANGES: dict[str, dict[str, Any]] = {
    "mmbg": {"num_envs": 256, "learning_rate_start": 1.7e-4},
    "mmg": {"num_envs": 256, "learning_rate_start": 2e-4},
}
# Endless Mortar Mayhem checks command k 24 k steps after its clue. Gradients connect the two only within one rollout:
# with 128 steps, learning slows down after ten commands. Updates of 16 384 steps, as published, learn more from each
# step than updates of 65 536. The published rates decay over 10 000 updates, not over the whole run. minGRU computes
# all steps of a rollout in parallel, so 512 of them cost little.
_FAST_ENDLESS = {
    **{"num_envs": 64, "num_steps": 256, "minibatches": 8, "learning_rate_start": 2.75e-4},
    **{"block_updates": 20, "checkpoint_updates": 500},
}
_FAST_ENDLESS_LINEAR = {**_FAST_ENDLESS, "num_envs": 32, "num_steps": 512}


@dataclasses.dataclass(frozen=True)
class GridTask:
    """A game of symbolic views, of BabyAI or MiniGrid-Memory.

    Attributes:
        env: id of the environment.
        agents: names of the agents.
        steps: environment steps of a run.
        changes: settings that differ from those of all grid tasks.
    """

    env: str
    agents: tuple[str, ...]
    steps: int
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)


# Clip range and discount are those of BabyAI (Chevalier-Boisvert et al., 2019, arXiv 1810.08272). With normalized
# advantages, the effect of an entropy coefficient does not depend on the scale of the reward.
_GRID: dict[str, Any] = {
    **{"num_envs": 1024, "num_steps": 64, "minibatches": 8, "gamma": 0.99, "clip": 0.2, "normalize_advantage": True},
    **{"learning_rate_start": 3e-4, "entropy_start": 1e-2, "entropy_end": 1e-3, "options": ("observation=symbolic",)},
}
# Random actions rarely fulfill these missions, so normalized advantages are mostly noise. With them, PutNextLocal
# learned more slowly, and BossLevel did not learn (docs/results/minigrid.md). BabyAI multiplies rewards by 20 and has
# an entropy coefficient of 0.01, which is 5e-4 for rewards of 1.
_RARE = {"normalize_advantage": False, "entropy_start": 5e-4, "entropy_end": 5e-5, "gae_lambda": 0.99}
# A discount of 0.99 would favor a guess, because the way back to the cue takes up to 15 steps. Of the 396 levels, few
# are held out: agents that trained on 348 of them failed in 4 to 16 % of the episodes on the others.
_GRID_MEMORY = {"gamma": 0.995, "held_out_levels": 8, "eval_repeats": 100}

GRID_TASKS: dict[str, GridTask] = {
    "gotolocal": GridTask("BabyAI-GoToLocal-v0", ("gru",), 66_000_000, {"held_out_levels": 1000}),
    "putnextlocal": GridTask("BabyAI-PutNextLocal-v0", ("gru",), 196_000_000, {**_RARE, "held_out_levels": 1000}),
    "bosslevel": GridTask(
        "BabyAI-BossLevel-v0", ("gru",), 524_000_000, {**_RARE, "held_out_levels": 1000, "gamma": 0.995}
    ),
    "memory-s17r": GridTask("MiniGrid-MemoryS17Random-v0", ("gru", "mingru", "none"), 50_000_000, _GRID_MEMORY),
}

# A window of keys and values for each environment limits their number, and one step of the model costs less in a large
# batch. The value at a time limit would need a second step of the model.
_HELM: dict[str, Any] = {
    **{"num_envs": 1024, "num_steps": 128, "bootstrap_time_limits": False, "eval_repeats": 3},
    **{"total_steps": 25_000_000, "keep_checkpoints": 1},
}
_HELM_TASKS: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "mmg": ("MortarMayhem-Grid-v0", ("preset=iclr2023", "command_count=[5]"), {}),
    "mpg": ("MysteryPath-Grid-v0", ("preset=iclr2023",), _ENTROPY),
    "ss": ("SearingSpotlights-v0", ("preset=iclr2023",), {}),
}


def _options(task: PaperTask, is_transformer: bool) -> tuple[str, ...]:
    suffix = "-transformer" if task.is_endless and is_transformer else ""
    return (f"preset={task.game_preset}{suffix}",)


def _is_transformer(agent: str) -> bool:
    return AGENTS[agent].changes["memory"] in ("trxl", "gtrxl")


def _shared(name: str, agent: str, group: str) -> dict[str, Any]:
    task, changes = TASKS[name], dict(AGENTS[agent].changes)
    is_transformer = _is_transformer(agent)
    if is_transformer:
        changes["memory_window"] = task.window
        if name.startswith("mpg"):
            changes |= {"memory_layers": 2, "memory_size": 256, "memory_positions": False}
    if name.startswith("mpg") or (name == "mp" and not is_transformer):
        changes |= _ENTROPY
    options = _options(task, is_transformer)
    return {**changes, "preset": f"{group}/{name}-{agent}", "env": task.env, "options": options, "eval_repeats": 3}


def _published(name: str, agent: str) -> Config:
    updates = _UPDATES.get((name, agent), TASKS[name].updates)
    lengths = {"total_steps": updates * _UPDATE_STEPS}
    if name == "ss":
        lengths["decay_steps"] = _LONG_DECAY
    return dataclasses.replace(SCALES["paper"], **lengths, **_shared(name, agent, "jmlr"))


def _fast(name: str, agent: str) -> Config:
    changes: dict[str, Any] = {"num_envs": 512, "num_steps": 128, **_FAST_CHANGES.get(name, {})}
    if TASKS[name].is_endless:
        changes = dict(_FAST_ENDLESS_LINEAR if AGENTS[agent].changes["memory"] == "mingru" else _FAST_ENDLESS)
    if _is_transformer(agent):
        changes = {**_FAST_TRANSFORMER, **_FAST_TRANSFORMER_CHANGES.get(name, {})}
    if TASKS[name].is_endless:
        changes["decay_steps"] = _DECAY
    if "reconstruction" in AGENTS[agent].changes:
        changes["reconstruction_share"] = 0.25
    changes["total_steps"] = _FAST_STEPS.get((name, agent), TASKS[name].fast_steps)
    return dataclasses.replace(SCALES["throughput"], **changes, **_shared(name, agent, "fast"))


def _grid(name: str, agent: str) -> Config:
    task = GRID_TASKS[name]
    steps = _FAST_STEPS.get((name, agent), task.steps)
    changes = {**_GRID, **task.changes, **AGENTS[agent].changes, "env": task.env, "total_steps": steps}
    return dataclasses.replace(SCALES["throughput"], **changes, preset=f"fast/{name}-{agent}")


def _helm(name: str, memory: str) -> Config:
    env, options, changes = _HELM_TASKS[name]
    own = {"env": env, "options": options, "memory": memory, "preset": f"helm/{name}-{memory}"}
    return dataclasses.replace(SCALES["throughput"], **_HELM, **changes, **own)


def _all() -> Iterator[Config]:
    for name, task in TASKS.items():
        yield from (_published(name, agent) for agent in task.agents)
    for name, task in TASKS.items():
        linear = "mingru-rec" if name in ("ss", "ess") else "mingru"
        yield from (_fast(name, agent) for agent in (*task.agents, linear))
    for name, grid_task in GRID_TASKS.items():
        yield from (_grid(name, agent) for agent in grid_task.agents)
    for name in _HELM_TASKS:
        yield from (_helm(name, memory) for memory in ("helm", "gru"))


PRESETS: dict[str, Config] = {config.preset: config for config in _all()}
"""Settings of every preset of the training command, by name."""


def listed() -> str:
    """Return all presets, one per line."""
    rows: list[tuple[str, ...]] = [
        ("preset", "environment", "options", "memory", "also learns", "environments x steps", "steps")
    ]
    for name, config in PRESETS.items():
        weights = {"frames": config.reconstruction, "ground truth": config.ground_truth_head}
        beside = [word for word, weight in weights.items() if weight]
        shape = f"{config.num_envs} x {config.num_steps}"
        total = f"{config.total_steps / 1e6:.0f} M"
        rows.append((name, config.env, " ".join(config.options), config.memory, ", ".join(beside) or "-", shape, total))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
