"""A tokenizer, a processor and a model for trainers, made in memory: bytes as tokens, and chats in ChatML.

messages  --tokenizer-->  ids  --chat_of-->  the messages that a model reads  --policy-->  reply
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

from tests.conformance.clients.policies import Policy

END, PAD = "<|im_end|>", "<|endoftext|>"
IMAGE = "<|image_pad|>"
MARKS = ["<|im_start|>", "<|vision_start|>", "<|vision_end|>", IMAGE, "<|video_pad|>"]
PICTURE = re.compile(r"<\|vision_start\|>(?:<\|image_pad\|>)+<\|vision_end\|>")
TEMPLATE = (
    "{%- for message in messages -%}<|im_start|>{{ message.role }}\n"
    "{%- if message.content is string -%}{{ '\n' + message.content }}{%- else -%}{{ '\n' }}"
    "{%- for part in message.content -%}"
    "{%- if part.type == 'text' -%}{{ part.text }}"
    "{%- else -%}<|vision_start|><|image_pad|><|vision_end|>{%- endif -%}"
    "{%- endfor -%}{%- endif -%}<|im_end|>{{ '\n' }}"
    "{%- endfor -%}{%- if add_generation_prompt -%}<|im_start|>assistant{{ '\n' }}{%- endif -%}"
)
BAD_REPLIES = ("", "   ", "no action", "<action></action>", "\x00", "<action>up", "x" * 999, '{"a": ', "é☃ <image>")


def tokenizer() -> Any:
    """Return a tokenizer of transformers with one token for each byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(letters)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    made.add_special_tokens({"additional_special_tokens": MARKS})
    made.chat_template = TEMPLATE
    return made


def processor(of: Any) -> Any:
    """Return the processor of Qwen2.5-VL with a tokenizer; it takes images, but no videos, and needs no torchvision."""
    from transformers import Qwen2_5_VLProcessor
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    class Processor(Qwen2_5_VLProcessor):
        def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
            if argument_name != "video_processor":
                return super().check_argument_for_proper_class(argument_name, argument)
            return None

    of.image_token, of.video_token = IMAGE, "<|video_pad|>"
    images = Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=16 * 28 * 28)
    return Processor(image_processor=images, tokenizer=of, video_processor=None, chat_template=TEMPLATE)


def chat_of(tokens: Any, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Return the messages in the ids of a context; the marks of an image are `<image>`."""
    text = PICTURE.sub("<image>", tokens.decode(list(ids), skip_special_tokens=False))
    parts = [part.partition("\n") for part in text.split("<|im_start|>")[1:]]
    chat = [{"role": role, "content": content.partition(END)[0]} for role, _, content in parts]
    return chat if chat[-1]["content"] or chat[-1]["role"] != "assistant" else chat[:-1]


def replies_of(chat: Sequence[dict[str, Any]]) -> list[str]:
    """Return the model's replies in a chat."""
    return [message["content"] for message in chat if message["role"] == "assistant"]


class Model:
    """Replies to contexts with a policy.

    Attributes:
        images: The images of each call, by trajectory.
        waiting: Number of calls that wait for a reply.
        peak: The highest number of these.
    """

    def __init__(self, tokens: Any, policy: Policy | Callable[[list[dict[str, Any]], int], str]):
        self.tokens, self.policy = tokens, policy
        self.images: dict[Any, list[list[Any]]] = {}
        self.waiting = self.peak = 0

    async def reply(self, trajectory: Any, ids: Sequence[int], images: Sequence[Any] = ()) -> tuple[str, list[int]]:
        """Return the reply to a context, as text and as ids with the mark of the end."""
        self.images.setdefault(trajectory, []).append(list(images))
        self.waiting += 1
        self.peak = max(self.peak, self.waiting)
        await asyncio.sleep(0)
        self.waiting -= 1
        chat = chat_of(self.tokens, ids)
        said = self.policy(chat, len(replies_of(chat)) + 1)
        return said, [*self.tokens.encode(said, add_special_tokens=False), self.tokens.eos_token_id]


def bad_replies(_: list[dict[str, Any]], turn: int) -> str:
    """Give another malformed reply in each turn."""
    return BAD_REPLIES[(turn - 1) % len(BAD_REPLIES)]
