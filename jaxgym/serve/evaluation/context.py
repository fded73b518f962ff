"""Context guard: shortens chats that do not fit into the context of a model.

The rule: count the tokens of the chat. If they exceed the context without the tokens of a reply, drop the oldest turns
after the first one, as many as necessary. The system prompt, the text of the first turn and the current turn stay.
"""

import bisect
import dataclasses
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxgym import extras
from jaxgym.serve.messages import content_text, recent
from jaxgym.serve.rollout.policies import Chat, Choice, Policy, PolicyError, Request, from_folder, prompt_of

_BYTES_PER_TOKEN = 3
_TOKENS_PER_MESSAGE = 4


def estimated_tokens(chat: Chat, image_tokens: int) -> int:
    """Estimate the tokens of a chat: one for 3 bytes of UTF-8 text, 4 for a message, `image_tokens` for an image.

    >>> estimated_tokens([{"role": "user", "content": "Go on!"}], 256)
    6
    """
    size = sum(-(-len(content_text(message["content"]).encode()) // _BYTES_PER_TOKEN) for message in chat)
    return size + _TOKENS_PER_MESSAGE * len(chat) + image_tokens * _images(chat)


def _images(chat: Chat) -> int:
    contents = [message["content"] for message in chat if isinstance(message["content"], list)]
    return sum(part.get("type") == "image_url" for content in contents for part in content)


def tokenizer_tokens(folder: Path, image_tokens: int) -> Callable[[Chat], int]:
    """Return a function that counts the tokens of a chat with the tokenizer and the chat template of a folder.

    Raises:
        ImportError: If `transformers` is missing.
        OptionError: If the folder contains no tokenizer.
    """
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError as error:
        raise ImportError(extras.missing("rollout", error.name, beside=("transformers",))) from error
    tokenizer = from_folder(transformers.AutoTokenizer, folder)

    def count(chat: Chat) -> int:
        texts = [{**message, "content": content_text(message["content"])} for message in chat]
        encoded = tokenizer(prompt_of(tokenizer, texts), add_special_tokens=False)
        return len(encoded["input_ids"]) + image_tokens * _images(chat)

    return count


class ContextGuard(Policy):
    """Policy that shows another policy as many of the last turns as fit into its context.

    Attributes:
        shortened: Number of shortened requests of each running trajectory, by its id.
    """

    def __init__(self, policy: Policy, tokens: int | None, reserved: int, count: Callable[[Chat], int]):
        """Make a guard.

        Args:
            policy: The policy that replies.
            tokens: Tokens of the context; None means no limit.
            reserved: Tokens that are kept free for a reply.
            count: Function that counts the tokens of a chat.
        """
        self.policy, self.shortened = policy, dict[str, int]()
        self._tokens, self._reserved, self._count = tokens, reserved, count

    def check(self, name: str, options: Mapping[str, Any]) -> None:
        """Check an environment; see `Policy.check`."""
        self.policy.check(name, options)

    async def reply(self, request: Request) -> Choice:
        """Return the reply to a chat that fits; raise `PolicyError` if not even the current turn does."""
        messages = self.fitting(request.messages)
        if messages is not request.messages:
            self.shortened[request.uuid] = self.shortened.get(request.uuid, 0) + 1
        return await self.policy.reply(dataclasses.replace(request, messages=messages))

    def fitting(self, chat: Chat) -> Chat:
        """Return the chat if it fits, or else the longest part of it that fits."""
        if self._tokens is None or self._count(chat) <= self._tokens - self._reserved:
            return chat
        turns = sum(message["role"] == "user" for message in chat)
        limit = self._tokens - self._reserved
        kept = bisect.bisect_right(range(1, turns), limit, key=lambda count: self._size(chat, count))
        if not kept:
            raise PolicyError(
                f"expected a context of at least {self._size(chat, 1) + self._reserved} tokens for the prompt, one "
                f"turn and a reply, got {self._tokens}. Raise --context-tokens, or lower --max-tokens.",
                is_final=True,
            )
        return recent(chat, kept, None)

    def _size(self, chat: Chat, turns: int) -> int:
        return self._count(recent(chat, turns, None))

    def forget(self, request: Request) -> None:
        """Free the resources of a trajectory that has ended."""
        self.policy.forget(request)

    async def aclose(self) -> None:
        """Close the connections of the policy."""
        await self.policy.aclose()
