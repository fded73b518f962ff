"""Generate function of slime: plays the episode of a data row.

    --custom-generate-function-path jaxgym.serve.trainers.slime.generate
    --input-key prompt --metadata-key metadata

A row has `metadata.env_config`, as `jaxgym dataset --format slime` writes it.
"""

import importlib
from typing import Any

from jaxgym.serve.images import data_url, pil_image
from jaxgym.serve.trainers.episode import Observation, play

try:
    _slime: Any = importlib.import_module("slime.rollout.sglang_rollout")
    _http: Any = importlib.import_module("slime.utils.http_utils")
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"jaxgym.serve.trainers.slime: slime is not installed ({error}). Install it from a checkout of THUDM/slime; "
        "the package of that name on the package index is another project.",
        name=error.name,
    ) from error

_LAST_REPLY = "jaxgym-last-reply"
_NOT_FOR_TRAINING = ("input_ids", "attention_mask", "mm_token_type_ids")


async def generate(args: Any, sample: Any, sampling_params: dict[str, Any]) -> Any:
    """Play the episode of a sample; set its tokens, reward, status and metadata.

    `sample.reward` is the sum of the episode's rewards, so slime calls no reward function. `turn_rewards` in the
    metadata has the reward of each turn. The status is TRUNCATED if a token limit stopped the episode.

    Raises:
        UnknownIdError, OptionError, LevelError: If the environment can't be made.
        SessionError: If the seed is invalid, or the pool is full.
    """
    rollout = _Rollout(args, sample, sampling_params)
    played = await play(sample.metadata["env_config"], rollout.ask)
    rollout.add_tensors()
    sample.reward = played.total_reward
    sample.metadata = {**sample.metadata, "turn_rewards": played.rewards, **played.metrics}
    if sample.status != sample.Status.ABORTED:
        sample.status = sample.Status.COMPLETED if played.has_ended else sample.Status.TRUNCATED
    return sample


class _Rollout:
    """Tokens and images of a sample during its episode."""

    def __init__(self, args: Any, sample: Any, sampling_params: dict[str, Any]):
        self._args, self._sample, self._sampling_params = args, sample, sampling_params
        state = _slime.GenerateState(args)
        self._tokenizer, self._processor = state.tokenizer, state.processor
        self._image_urls = list[str]()
        self._tensors = list[dict[str, Any]]()
        # An aborted sample starts again.
        sample.tokens, sample.response, sample.response_length = [], "", 0
        sample.loss_mask = sample.rollout_log_probs = None

    async def ask(self, observation: Observation) -> str | None:
        """Return the model's reply; None at a token limit, or if slime aborts the generation."""
        sample = self._sample
        tokens, tensors = self._encoded(observation)
        most = self._sampling_params["max_new_tokens"] - sample.response_length
        if sample.tokens:
            most -= len(tokens)
        context = self._args.rollout_max_context_len
        if context is not None:
            most = min(most, context - len(sample.tokens) - len(tokens))
        if most <= 0:
            return None
        if sample.tokens:
            sample.append_response_tokens(self._args, tokens=tokens, trainable=False)
        else:
            sample.tokens = tokens
        if observation.image is not None:
            self._image_urls.append(data_url(observation.image))
            self._tensors.append(tensors)
        output = await self._generated({**self._sampling_params, "max_new_tokens": most})
        pairs = output["meta_info"].get("output_token_logprobs", [])
        new = [pair[1] for pair in pairs]
        sample.append_response_tokens(
            self._args,
            tokens=new,
            log_probs=[pair[0] for pair in pairs],
            trainable=True,
            meta_info=output["meta_info"],
            text=output["text"],
        )
        if output["meta_info"]["finish_reason"]["type"] == "abort":
            return None
        return self._tokenizer.decode(new, skip_special_tokens=True)

    async def _generated(self, sampling_params: dict[str, Any]) -> Any:
        payload = {"input_ids": self._sample.tokens, "sampling_params": sampling_params, "return_logprob": True}
        if self._image_urls:
            payload["image_data"] = self._image_urls
        if self._args.use_rollout_routing_replay:
            payload["return_routed_experts"] = True
        url = f"http://{self._args.sglang_router_ip}:{self._args.sglang_router_port}/generate"
        return await _http.post(url, payload)

    def _encoded(self, observation: Observation) -> tuple[list[int], dict[str, Any]]:
        """Return the tokens of an observation up to the model's next reply, and the tensors of its image."""
        new = observation.messages({"type": "image"})
        last = [{"role": "user", "content": "."}, {"role": "assistant", "content": _LAST_REPLY}]
        is_first = not self._sample.tokens
        text = self._tokenizer.apply_chat_template(
            new if is_first else [*last, *new], tokenize=False, add_generation_prompt=True
        )
        if not is_first:
            # The model itself writes the mark at the end of its reply.
            text, end = text.partition(_LAST_REPLY)[2], self._sample.tokens[-1]
            if end in self._tokenizer.all_special_ids:
                text = text.removeprefix(self._tokenizer.decode([end]))
        if observation.image is None:
            return self._tokenizer.encode(text, add_special_tokens=False), {}
        made = self._processor(text=[text], images=[pil_image(observation.image)], return_tensors="pt")
        tensors = {name: made[name] for name in made if name not in _NOT_FOR_TRAINING}
        return made["input_ids"][0].tolist(), tensors

    def add_tensors(self) -> None:
        """Give the image tensors of all turns to the training."""
        if self._tensors:
            concatenate = importlib.import_module("torch").cat
            names = self._tensors[0]
            self._sample.multimodal_train_inputs = {
                name: concatenate([tensors[name] for tensors in self._tensors]) for name in names
            }
