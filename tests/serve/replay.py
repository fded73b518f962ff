"""The texts and rewards that a session pool gives for known replies, to compare with those of a trainer."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxgym.serve.episodes import options_of
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.sessions import TurnResult


def replay(
    pool: SessionPool, env_config: Mapping[str, Any], replies: Sequence[str]
) -> tuple[list[str], list[TurnResult]]:
    """Return the system prompt and all texts of an episode, and its results, from a session of its own."""
    opening = pool.open(env_config["name"], env_config["seed"], {"levels": "fresh", **options_of(env_config)})
    results = [pool.step_one(opening.id, reply) for reply in replies]
    pool.close([opening.id])
    return [opening.system_prompt, opening.text, *(result.text for result in results)], results
