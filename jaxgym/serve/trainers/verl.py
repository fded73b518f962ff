"""Agent loop of verl 0.9: plays the episode of a data row.

    # agent_loop.yaml, for actor_rollout_ref.rollout.agent.agent_loop_config_path
    - name: jaxgym
      _target_: jaxgym.serve.trainers.verl.JaxgymAgentLoop
      ray_actors: 2  # optional: play on a pool of so many Ray actors, not in the process of the loop

A row has `agent_name: jaxgym` and an `env_config`, as `jaxgym dataset --format verl` writes it.
"""

import asyncio
import importlib
import uuid
from typing import Any

from jaxgym.serve import ray
from jaxgym.serve.images import pil_image
from jaxgym.serve.rollout.scheduler import MOST_TURNS
from jaxgym.serve.trainers.dataset import AGENT
from jaxgym.serve.trainers.episode import Observation, Played, play

try:
    _verl: Any = importlib.import_module("verl.experimental.agent_loop.agent_loop")
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"jaxgym.serve.trainers.verl: verl is not installed ({error}). Install it: pip install verl==0.9.1.",
        name=error.name,
    ) from error


@_verl.register(AGENT)
class JaxgymAgentLoop(_verl.AgentLoopBase):
    """Agent loop of one trajectory; the reward is the sum of the episode's rewards.

    The trajectory stops at the end of the episode, after `max_assistant_turns` replies, or before an observation that
    does not fit into `response_length`.
    """

    def __init__(self, *arguments: Any, ray_actors: int = 0, **settings: Any):
        """Make a loop.

        Args:
            *arguments: Arguments of verl's `AgentLoopBase`.
            ray_actors: Number of actors of the session pool that all workers of the Ray job share; 0 means that the
                process has its own pool.
            **settings: Keyword arguments of `AgentLoopBase`.
        """
        super().__init__(*arguments, **settings)
        self._ray_actors = ray_actors

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
        """Play the episode of a row, and return verl's `AgentLoopOutput`.

        Args:
            sampling_params: Parameters of verl's generation.
            **row: The columns of the row; only `env_config` is used.

        Raises:
            UnknownIdError, OptionError, LevelError: If the environment can't be made.
            SessionError: If the seed is invalid, or the pool is full.
        """
        self._sampling_params, self._request_id = sampling_params, uuid.uuid4().hex
        self._messages = list[dict[str, Any]]()
        self._images = list[Any]()
        self._tokens, self._mask = list[int](), list[int]()
        self._log_probs: list[float] | None = None
        self._extra_fields = dict[str, Any]()
        if self._ray_actors:
            await asyncio.to_thread(ray.share, self._ray_actors)
        limit = self.rollout_config.multi_turn.max_assistant_turns or MOST_TURNS
        return self._output(await play(row["env_config"], self._ask, limit))

    async def _ask(self, observation: Observation) -> str | None:
        if not await self._add(observation):
            return None
        output = await self.server_manager.generate(
            request_id=self._request_id,
            prompt_ids=self._tokens,
            sampling_params=self._sampling_params,
            image_data=self._images or None,
        )
        if output.log_probs and self._log_probs is None:
            self._log_probs = []
        merged, self._mask, self._log_probs = await self.ct_merge_assistant_token(
            self._tokens, output.token_ids, self._mask, self._log_probs, assistant_logprobs=output.log_probs or None
        )
        self._tokens = merged.token_ids
        # Fields such as the range of the model's versions: the minimum is that of the first reply.
        newest = {name: value for name, value in output.extra_fields.items() if name.startswith("max_")}
        self._extra_fields = {**output.extra_fields, **self._extra_fields, **newest}
        reply = self.tokenizer.decode(output.token_ids, skip_special_tokens=True)
        self._messages.append({"role": "assistant", "content": reply})
        return reply

    async def _add(self, observation: Observation) -> bool:
        """Append the messages of an observation; return False, and append nothing, if they do not fit."""
        image = None if observation.image is None else pil_image(observation.image)
        images = self._images if image is None else [*self._images, image]
        messages = [*self._messages, *observation.messages({"type": "image", "image": image})]
        self._assert_mm_supported(bool(images))
        if self._messages:
            merged, mask, log_probs = await self.ct_merge_context_msg(
                self._messages, messages, self._tokens, self._mask, self._log_probs
            )
            if len(mask) >= self.rollout_config.response_length:
                return False
            self._tokens, self._mask, self._log_probs = merged.token_ids, mask, log_probs
        else:
            self._tokens = await self.ct_build_initial_tokens(messages, images=images or None)
        self._messages, self._images = messages, images
        return True

    def _output(self, played: Played) -> Any:
        length, most = len(self._mask), self.rollout_config.response_length
        start = len(self._tokens) - length
        return _verl.AgentLoopOutput(
            prompt_ids=self._tokens[:start],
            response_ids=self._tokens[start:][:most],
            response_mask=self._mask[:most],
            response_logprobs=None if self._log_probs is None else self._log_probs[:most],
            multi_modal_data={"images": self._images} if self._images else {},
            reward_score=played.total_reward,
            num_turns=2 * len(played.rewards) + 1,
            metrics={},
            extra_fields={
                **self._extra_fields,
                "turn_scores": played.rewards,
                "tool_rewards": [],
                "reward_extra_info": played.metrics,
            },
        )
