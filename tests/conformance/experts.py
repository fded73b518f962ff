"""Replies of a game's scripted expert."""

import asyncio
from collections.abc import Callable
from typing import Any

from jaxgym.serve.rollout.policies import Request
from jaxgym.serve.rollout.scripted import ScriptedPolicy


def expert(name: str, seed: int, **options: Any) -> Callable[[], str]:
    """Return a function whose next results are the replies in the episode of a seed."""
    policy = ScriptedPolicy("expert")
    request = Request("the only one", [], {"env_config": {"name": name, "seed": seed, **options}})
    return lambda: asyncio.run(policy.reply(request)).message.content
