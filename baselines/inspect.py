"""Show what an agent remembers: `python -m baselines.inspect runs/NAME`.

The agent plays held-out levels. Gradient saliency shows on which earlier observations its actions and values depend.
Linear probes show which hidden facts of the environment its recurrent state holds. The results are inspect.json and
figures in RUN/inspect.
"""

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jax import lax
from tqdm import tqdm

from baselines import exits, plots
from baselines.config import INT32_END, check_seed
from baselines.errors import ConfigError, RunError
from baselines.game import with_frames
from baselines.losses import sample_action
from baselines.ppo import act
from baselines.probes import Probed, probe
from baselines.saliency import Recording, Saliency, saliency_of, shares
from baselines.zoo import TrainedAgent, agent_of
from jaxgym import facts
from jaxgym.pytrees import first_frame

_ZOO = "zoo:"
_SALIENT_EPISODES = 8
_FRAMES = 12
_MOST_NUMBERS = 2048  # of a recurrent state; larger ones are projected
_MOST_PROBES = 20  # lines of a figure


@dataclasses.dataclass(frozen=True)
class InspectFlags:
    """Inspect the memory of an agent: gradient saliency, recall density, and probes for hidden facts."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder, or zoo:ID for a trained agent of the checkout."""
    out: Path | None = None
    """Output folder; RUN/inspect by default, inspect-ID for an agent of the zoo."""
    episodes: int = 128
    """Number of episodes; half of them train the probes, the others test them."""
    max_steps: int = 128
    """Number of steps of an episode that are played and inspected."""
    queries: int = 32
    """Number of steps whose action and value are traced back."""
    spans: int = 16
    """Number of spans of steps with probes of their own."""
    seed: int = 0
    """Seed of the sampled actions."""


class PlayedEpisodes(NamedTuple):
    """Steps of B episodes.

    Attributes:
        recording: observations, starts and actions, leaves (T, B, ...).
        states: recurrent states after the observation, float32 (T, B, D).
        facts: hidden facts of the environment's states by name, integers (T, B, n).
        is_used: whether a step belongs to the first episode, bool (T, B).
        success: success of the episode so far, (T, B); 0 in games without success.
    """

    recording: Recording
    states: Any
    facts: Any
    is_used: Any
    success: Any


def play(agent: TrainedAgent, episodes: int, steps: int, seed: int) -> tuple[PlayedEpisodes, Any]:
    """Return the steps of episodes on held-out levels, and the frames of the first one, uint8 (T, H, W, 3) or None."""
    setup, game = agent.setup, agent.game
    num_levels = len(jax.tree.leaves(game.held_out_levels)[0])
    levels = jax.tree.map(lambda leaf: jnp.asarray(leaf)[jnp.arange(episodes) % num_levels], game.held_out_levels)
    drawn = with_frames(setup.env)

    @jax.jit
    def run(params: Any, levels: Any, env_params: Any, key: jax.Array) -> tuple[PlayedEpisodes, Any]:
        key_reset, key = jax.random.split(key)
        observation, env_state = jax.vmap(setup.env.reset_to_level, (0, 0, None))(
            jax.random.split(key_reset, episodes), levels, env_params
        )

        def step(carry: Any, key: jax.Array) -> tuple[Any, tuple[PlayedEpisodes, Any]]:
            observation, env_state, memory, start, is_used = carry
            key_action, key_step, key_draw = jax.random.split(key, 3)
            memory, output = act(setup, params, memory, observation, start)
            action = sample_action(key_action, output.logits, setup.sizes)
            first = jax.tree.map(lambda leaf: leaf[0], env_state)
            frame = first_frame(drawn.observe(key_draw, first, None, env_params))
            after, following, _, terminated, truncated, info = jax.vmap(setup.env.step, (0, 0, 0, None))(
                jax.random.split(key_step, episodes),
                env_state,
                action if setup.has_branches else action[..., 0],
                env_params,
            )
            ended = terminated | truncated
            hidden = jax.vmap(partial(facts.hidden, setup.env), (0, None))(env_state, env_params)
            values = {name: fact.values.reshape(episodes, -1) for name, fact in hidden.items()}
            success = info.get("success", jnp.zeros(episodes, jnp.int32)).astype(jnp.float32)
            recording = Recording(observation, start, action)
            played = PlayedEpisodes(recording, _numbers(memory, episodes), values, is_used, success)
            return (after, following, memory, ended, is_used & ~ended), (played, frame)

        start = jnp.ones(episodes, bool)
        carry = observation, env_state, setup.network.memory.initial_state(episodes), start, start
        return lax.scan(step, carry, jax.random.split(key, steps))[1]

    return jax.device_get(run(agent.acting_params, levels, game.params, jax.random.key(seed)))


def _numbers(memory: Any, episodes: int) -> jax.Array:
    """Return a recurrent state as numbers, float32 (B, D), D at most 2048: larger states are projected at random."""
    leaves = [leaf.reshape(episodes, -1).astype(jnp.float32) for leaf in jax.tree.leaves(memory)]
    numbers = jnp.concatenate(leaves, axis=1) if leaves else jnp.zeros((episodes, 0), jnp.float32)
    if numbers.shape[1] <= _MOST_NUMBERS:
        return numbers
    matrix = jax.random.normal(jax.random.key(0), (numbers.shape[1], _MOST_NUMBERS), jnp.float32)
    return numbers @ matrix / numbers.shape[1] ** 0.5


def trace_back(agent: TrainedAgent, played: PlayedEpisodes, queries: int) -> tuple[np.ndarray, Saliency]:
    """Return the queried steps of each episode, (E, Q), and their saliency, (E, Q, T), of the first episodes.

    The queried steps are spread evenly from the first to the last step of an episode.
    """
    count = min(_SALIENT_EPISODES, played.is_used.shape[1])
    lengths = played.is_used[:, :count].sum(axis=0)
    places = np.stack([np.rint(np.linspace(0, length - 1, queries)).astype(np.int32) for length in lengths])
    episodes = jax.tree.map(lambda leaf: jnp.asarray(leaf[:, :count]).swapaxes(0, 1), played.recording)
    back = jax.jit(lambda params, given: lax.map(partial(_saliency, agent, params), given))
    return places, jax.device_get(back(agent.params, (episodes, jnp.asarray(places))))


def _saliency(agent: TrainedAgent, params: Any, given: tuple[Recording, jax.Array]) -> Saliency:
    return saliency_of(agent.setup, params, *given)


def recall_density(places: np.ndarray, salient: np.ndarray) -> np.ndarray:
    """Return the share of the saliency on steps before the queried one, (E, Q)."""
    earlier = np.arange(salient.shape[-1]) < places[..., None]
    return (shares(salient) * earlier).sum(axis=-1)


def probe_facts(played: PlayedEpisodes, spans: int) -> dict[str, Probed]:
    """Return the accuracies of probes for each hidden fact by name."""
    steps = int(played.is_used.any(axis=1).sum())
    borders = np.unique(np.rint(np.linspace(0, steps, spans + 1)).astype(int))
    return {name: probe(played.states, values, played.is_used, borders) for name, values in played.facts.items()}


def inspect(agent: TrainedAgent, flags: InspectFlags, out: Path) -> dict[str, Any]:
    """Inspect an agent; write inspect.json and the figures to a folder, and return the content of the file.

    Raises:
        ConfigError: if a number is out of range, or the memory is a language model.
        RunError: if the folder is not writable.
    """
    _check(flags)
    if agent.config.memory == "helm":
        raise ConfigError(
            "memory 'helm': expected a memory with a recurrent state, got a language model, whose state is part of the "
            "observation. Inspect an agent with another memory."
        )
    with _writing(out):
        out.mkdir(parents=True, exist_ok=True)
    played, frames = play(agent, flags.episodes, flags.max_steps, flags.seed)
    places, saliency = trace_back(agent, played, flags.queries)
    probed = probe_facts(played, flags.spans)
    steps = int(played.is_used.any(axis=1).sum())
    density = {name: recall_density(places, salient) for name, salient in saliency._asdict().items()}
    last = {name: shares(salient[:, -1]) for name, salient in saliency._asdict().items()}
    result = {
        "env": agent.config.env,
        "memory": agent.config.memory,
        "episodes": flags.episodes,
        "success": float((played.success * played.is_used).max(axis=0).mean()),
        "recall_density": {name: values.mean(axis=1).tolist() for name, values in density.items()},
        "saliency_of_last_step": {name: values[:, :steps].tolist() for name, values in last.items()},
        "probes": {name: dataclasses.asdict(own) for name, own in probed.items()},
    }
    with _writing(out):
        (out / "inspect.json").write_text(json.dumps(result, indent=1).replace("NaN", "null") + "\n")
        _draw_recall(out / "recall", places, saliency, density)
        _draw_strip(out / "strip", places[0], jax.tree.map(lambda salient: salient[0, -1], saliency), frames)
        if probed:
            _draw_probes(out / "probes", steps, probed)
    return result


@contextlib.contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write to {out} ({error.strerror or error}). Choose another --out.") from error


def _draw_recall(path: Path, places: np.ndarray, saliency: Saliency, density: dict[str, np.ndarray]) -> None:
    """Draw the saliency of the first episode, and the recall density of all of them."""
    steps = int(places[0, -1]) + 1
    with plots.drawing(path, 1, 3, (9, 2.8)) as ((value, action, time),):
        for axis, (name, salient) in zip((value, action), saliency._asdict().items(), strict=True):
            axis.imshow(
                shares(salient[0])[:, :steps],
                **{"aspect": "auto", "cmap": "Blues", "vmin": 0, "vmax": 1, "interpolation": "nearest"},
                extent=(-0.5, steps - 0.5, len(places[0]) - 0.5, -0.5),
            )
            axis.set(title=f"saliency of the {name}, first episode", xlabel="observed step", ylabel="queried step")
            rows = np.unique(np.linspace(0, len(places[0]) - 1, 5).astype(int))
            axis.set_yticks(rows, [str(places[0][row]) for row in rows])
        for index, (name, values) in enumerate(density.items()):
            for places_of, own in zip(places, values, strict=True):
                time.plot(places_of, own, color=plots.COLORS[index], alpha=0.25)
            time.plot(places.mean(axis=0), values.mean(axis=0), color=plots.COLORS[index], label=name)
        time.set(title="recall density", xlabel="step", ylabel="share on earlier steps", ylim=(-0.02, 1.02))
        time.legend()


def _draw_strip(path: Path, places: np.ndarray, salient: Saliency, frames: Any) -> None:
    """Draw frames of the first episode above the saliency of its last action and value."""
    last = int(places[-1])
    shown = np.unique(np.rint(np.linspace(0, last, min(_FRAMES, last + 1))).astype(int))
    most = int(np.argmax(salient.action[:last])) if last else 0
    shown = np.unique(np.append(shown, most))  # the earlier step with the largest saliency is always shown
    with plots.drawing(path, 2, len(shown), (max(4.0, 0.9 * len(shown)), 2.0), sharey="row") as axes:
        for column, step in enumerate(shown):
            above, below = axes[:, column]
            if frames is not None:
                above.imshow(frames[step], interpolation="nearest")
            above.set_axis_off()
            above.set_title(f"step {step}")
            heights = [float(shares(values[: last + 1])[step]) for values in salient]
            below.bar(salient._fields, heights, color=plots.COLORS[:2])
            below.set_ylim(0, 1)
        axes[1][0].set_ylabel("saliency")


def _draw_probes(path: Path, steps: int, probed: dict[str, Probed]) -> None:
    with plots.drawing(path, 1, 1, (6, 3.5)) as ((axis,),):
        for index, (name, own) in enumerate(list(probed.items())[:_MOST_PROBES]):
            middles = (np.arange(len(own.accuracy)) + 0.5) * steps / len(own.accuracy)
            color = plots.COLORS[index % len(plots.COLORS)]
            line = plots.LINES[index // len(plots.COLORS) % len(plots.LINES)]
            axis.plot(middles, own.accuracy, line, color=color, label=name.replace("_", " "))
            axis.plot(middles, own.chance, color=color, alpha=0.3, lw=0.8)
        axis.set(xlabel="step", ylabel="accuracy of the probe", ylim=(-0.02, 1.02))
        axis.set_title("linear probes of the recurrent state; thin lines: most frequent value")
        axis.legend()


def _check(flags: InspectFlags) -> None:
    """Raise `ConfigError` if a number is out of range."""
    check_seed(flags.seed)
    for name, least in (("episodes", 2), ("max_steps", 1), ("queries", 1), ("spans", 1)):
        number = getattr(flags, name)
        if not least <= number < INT32_END:
            raise ConfigError(
                f"--{name.replace('_', '-')}: expected a number from {least} to {INT32_END - 1}, got {number}"
            )


def inspect_run(flags: InspectFlags) -> dict[str, Any]:
    """Inspect the agent of a run on disk or of the zoo, see `inspect`."""
    name = flags.run.removeprefix(_ZOO)
    is_zoo = name != flags.run
    agent = agent_of(flags.run)
    return inspect(agent, flags, flags.out or (Path(f"inspect-{name}") if is_zoo else Path(name) / "inspect"))


def described(result: dict[str, Any]) -> str:
    """Return the result as text."""
    density = ", ".join(f"{name} {np.mean(values):.2f}" for name, values in result["recall_density"].items())
    lines = [f"success: {result['success']:.2f}", f"recall density: {density}"]
    for name, own in result["probes"].items():
        accuracy, chance = (np.nanmean(own[kind]) for kind in ("accuracy", "chance"))
        lines.append(f"probe of {name}: accuracy {accuracy:.2f}, most frequent value {chance:.2f}")
    return "\n".join(lines)


def main() -> None:
    """Run the command line."""
    with exits.exit_on_error():
        tqdm.write(described(inspect_run(tyro.cli(InspectFlags, prog="python -m baselines.inspect"))))


if __name__ == "__main__":
    main()
