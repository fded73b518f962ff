"""Short histories in ms-swift: the model sees the last turns of a trajectory, and each turn is a sample of training.

ms-swift trains on the chat of an output. With a history, each turn has another chat, so a trajectory has one output per
turn, all with the rewards of the whole trajectory. This needs ms-swift's server mode, which calls `run`.
"""

import dataclasses
import importlib
import itertools
from collections.abc import Sequence
from typing import Any

from jaxgym.errors import OptionError
from jaxgym.serve.messages import IMAGE_MARK, recent, with_mark


def seen_of(
    messages: Sequence[dict[str, Any]], images: Sequence[Any], turns: int | None, pictured: int | None
) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return the messages and the images that the model sees.

    Args:
        messages: The chat; a user message with an image starts with its mark.
        images: The images of the marked messages, in their order.
        turns: Number of the last turns to keep; see `jaxgym.serve.messages.recent`.
        pictured: Number of the last turns whose images are kept.
    """
    left, chat = list(images), list[dict[str, Any]]()
    for message in messages:
        if left and message["role"] == "user" and message["content"].startswith(IMAGE_MARK):
            text = message["content"].removeprefix(IMAGE_MARK)
            parts = [{"type": "image_url", "image": left.pop(0)}, {"type": "text", "text": text}]
            chat.append({**message, "content": parts})
        else:
            chat.append(message)
    kept, shown = recent(chat, turns, pictured), list[Any]()
    for place, message in enumerate(kept):
        if message["role"] == "user" and isinstance(message["content"], list):
            image, text = message["content"]
            shown.append(image["image"])
            kept[place] = {**message, "content": with_mark(text["text"])}
    return kept, shown


class HistoryHooks:
    """`run` of a scheduler with a history, to be combined with a scheduler of ms-swift as the last base class.

    Attributes:
        history_turns: Number of the last turns that the model sees, in addition to the first one; None shows all.
        history_images: Number of the last turns whose images the model sees; None shows those of the last
            `history_turns`.
    """

    history_turns: int | None = None
    history_images: int | None = None

    async def on_trajectory_start(self, requests: Sequence[Any]) -> None:
        """Start the trajectories; raise `OptionError` for a history in colocate mode, which does not call `run`."""
        hooks: Any = super()
        if self._is_short() and getattr(self, "infer_engine", None) is None:
            raise OptionError("history_turns: expected None in colocate mode, got a number. Use server mode.")
        await hooks.on_trajectory_start(requests)

    async def run(self, infer_request: Any, request_config: Any, **more: Any) -> Any:
        """Run a trajectory; return one output for each turn, or ms-swift's single output without a history."""
        hooks: Any = super()
        if not self._is_short():
            return await hooks.run(infer_request, request_config, **more)
        scheduler: Any = self
        make_output = importlib.import_module("swift.infer_engine.protocol").RolloutOutput
        request, outputs, infos = infer_request, list[Any](), dict[str, Any]()
        tokens = dict[int, list[int]]()  # of the replies, by the identity of their messages
        await self.on_trajectory_start([request])
        for turn in itertools.count(1):
            chat, images = seen_of(request.messages, request.images, self.history_turns, self.history_images)
            seen = dataclasses.replace(request, messages=chat, images=images)
            response = await scheduler.infer_engine.infer_async(seen, request_config, **more)
            choice = response.choices[0]
            ids, mask = scheduler.get_response_token_data(seen, choice)
            earlier = [tokens[id(message)] for message in chat if message["role"] == "assistant"]
            logprobs = scheduler._extract_logprobs_from_choice(choice)
            reply = {"role": "assistant", "content": choice.message.content}
            request.messages.append(reply)
            tokens[id(reply)] = ids
            ended = await scheduler.on_turn_end(request, choice, turn)
            infos |= ended.get("rollout_infos", {})
            has_ended = ended.get("done", scheduler.check_finished(request, choice, turn))
            outputs.append(
                make_output(
                    response=response,
                    messages=[dict(message) for message in (*chat, reply)],  # the trainer changes them in place
                    response_token_ids=[*earlier, ids],
                    response_loss_mask=[*([0] * len(each) for each in earlier), mask],
                    rollout_logprobs=[logprobs] if logprobs else [],
                    rollout_infos={"images": images} if images else {},
                )
            )
            if has_ended or (scheduler.max_turns and turn >= scheduler.max_turns):
                break
            request = scheduler.step(request, choice, turn)["infer_request"]
        await scheduler._close_and_remove(request.uuid)  # if max_turns has truncated it
        infos.pop("images", None)
        for output in outputs:  # the trainer requires equal rewards of all outputs of a request
            output.rollout_infos |= {**infos, "num_turns": len(outputs)}
        return outputs

    def _is_short(self) -> bool:
        return self.history_turns is not None or self.history_images is not None
