"""Agent workflow of AReaL: plays the episode of a data row with AReaL's endpoint.

    workflow="jaxgym.serve.trainers.areal.GameWorkflow"

A row has an `env_config`, as `jaxgym dataset --format areal` writes it.
"""

import importlib
import os
from collections.abc import Mapping
from typing import Any

from jaxgym.serve.trainers.episode import Observation, play


class GameWorkflow:
    """Workflow of AReaL. Instances can be pickled: the session pool is made on the first call of a process."""

    def __init__(self, sampling: Mapping[str, Any] | None = None):
        """Make a workflow.

        Args:
            sampling: Arguments of a completion, such as `temperature` and `max_completion_tokens`.
        """
        self._sampling = dict(sampling or {})

    async def run(self, data: Mapping[str, Any], **extra_kwargs: Any) -> float:
        """Play the episode of a row; return the sum of its rewards, which AReaL gives to the last completion.

        If the endpoint fails, the trajectory is rejected, as for a completion without any token of text, which AReaL
        cannot record. The client requests another completion twice before that.

        Args:
            data: The columns of the row; only `env_config` is used.
            **extra_kwargs: `base_url`, `api_key` and `http_client` of AReaL; in its mode `subproc`, the environment
                variables `OPENAI_BASE_URL` and `OPENAI_API_KEY` instead.

        Raises:
            UnknownIdError, OptionError, LevelError: If the environment can't be made.
            SessionError: If the seed is invalid, or the pool is full.
        """
        openai: Any = importlib.import_module("openai")
        http_client = extra_kwargs.get("http_client")
        client = openai.AsyncOpenAI(
            base_url=extra_kwargs.get("base_url") or os.environ["OPENAI_BASE_URL"],
            api_key=extra_kwargs.get("api_key") or os.environ["OPENAI_API_KEY"],
            http_client=http_client,
        )
        chat = list[dict[str, Any]]()

        async def ask(observation: Observation) -> str | None:
            chat.extend(observation.messages())
            answer = await client.chat.completions.create(model="default", messages=chat, **self._sampling)
            reply = answer.choices[0].message.content or ""
            # AReaL finds the earlier completions of a chat by their unchanged text.
            chat.append({"role": "assistant", "content": reply})
            return reply

        try:
            return (await play(data["env_config"], ask)).total_reward
        finally:
            if http_client is None:
                await client.close()
