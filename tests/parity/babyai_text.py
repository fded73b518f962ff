"""Replay recorded text episodes of AgentGym's BabyAI: `python -m tests.parity.babyai_text FILE`.

The file is gzipped JSON. Each of its episodes has the task, the response to the reset, and for each step the action,
the response, the number of primitive steps, and the agent's position and direction afterwards. All of these must be
equal. The last step may be one after the end of the episode, which the server rejects.
"""

import functools
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

from jaxgym.envs.babyai import agentgym
from jaxgym.envs.babyai.mission import text_of
from tests.parity.babyai import num_failures

FINISHED = re.compile(r"The task with environment \d+ has finished\.")


def load(path: Path) -> list[dict[str, Any]]:
    """Return the episodes of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)["episodes"]


def check_episode(recorded: dict[str, Any]) -> None:
    """Play an episode and compare it with the recorded one."""
    task = agentgym.task_of(recorded["data_idx"])
    name = agentgym.LEVEL_NAMES[recorded["data_idx"] % len(agentgym.LEVEL_NAMES)]
    equal(text_of(task.level.mission.tokens), recorded["mission"], "mission")
    equal(task.limit, recorded["max_steps"], "time limit")
    equal(f"BabyAI-{name}".replace("GoToObjS4", "GoToObjS6"), recorded["level"], "level")
    equal(recorded["data_idx"] // len(agentgym.LEVEL_NAMES), recorded["seed"], "seed")
    episode = agentgym.begin(task)
    begun = {**answer_of(episode), "observation": episode.goal + episode.observation, "deleted": False}
    equal(begun, recorded["reset"], "reset")
    for number, step in enumerate(recorded["steps"]):
        where = f"step {number}, {step['action']!r}"
        if episode.has_ended:
            assert FINISHED.fullmatch(step["result"].get("error", "")), f"{where}: expected the end of the episode"
            continue
        before = int(episode.state.time)
        agentgym.play([episode], [step["action"]])
        equal(answer_of(episode), step["result"], where)
        played = episode.state
        for key, found in (
            ("primitive", int(played.time) - before),
            ("pos", played.world.position.tolist()),
            ("dir", int(played.world.direction)),
        ):
            if key in step:
                equal(found, step[key], f"{where}: {key}")


def answer_of(episode: agentgym.AgentGymEpisode) -> dict[str, Any]:
    answer = {name: getattr(episode, name) for name in ("observation", "reward", "score")}
    return {**answer, "done": episode.has_ended}


def equal(found: Any, expected: Any, what: str) -> None:
    assert found == expected, f"{what}: expected {expected!r}, got {found!r}"


def main(path: str) -> int:
    """Check all episodes of a file; return the number of failures."""
    recordings = load(Path(path))
    return num_failures((f"task {each['data_idx']}", functools.partial(check_episode, each)) for each in recordings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) > 0)
