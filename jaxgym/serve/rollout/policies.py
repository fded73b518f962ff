"""Policies, which reply to chats."""

import asyncio
import dataclasses
import reprlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Chat = list[dict[str, Any]]
"""Messages with `role` and `content`, oldest first."""


class PolicyError(RuntimeError):
    """Failure of a policy to reply; if it is final, a retry is useless."""

    def __init__(self, reason: str, *, is_final: bool = False):
        """Make an error with a reason in one sentence."""
        super().__init__(reason)
        self.is_final = is_final


class Message(NamedTuple):
    """Completion of a policy.

    Attributes:
        content: The text, or a list of parts in the format of chat clients. None is a completion without text.
        role: "assistant".
    """

    content: Any
    role: str = "assistant"


class Choice(NamedTuple):
    """Reply, with the field names of ms-swift and chat endpoints.

    Attributes:
        message: The message.
        finish_reason: "stop", "length" if the token limit truncated it, another reason of an endpoint, or None.
        prompt_tokens: Number of tokens of the chat, or None if unknown.
        completion_tokens: Number of tokens of the reply, or None if unknown.
    """

    message: Message
    finish_reason: str | None = "stop"
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclasses.dataclass
class Request:
    """Running trajectory, with the field names of ms-swift.

    Attributes:
        uuid: The id.
        messages: The chat so far.
        data_dict: The columns of its row; after the start, its `env_config` has the `name` and the `seed`.
    """

    uuid: str
    messages: Chat
    data_dict: dict[str, Any]

    @property
    def env_config(self) -> Mapping[str, Any]:
        """Name, seed and options of the environment."""
        return self.data_dict.get("env_config") or {}


class Policy:
    """Base class of policies; a subclass defines `reply`."""

    def check(self, name: str, options: Mapping[str, Any]) -> None:
        """Raise `OptionError`, before any episode starts, if the policy cannot play an environment."""

    async def reply(self, request: Request) -> Choice:
        """Return the reply to a chat, or raise `PolicyError`; the call can be canceled and repeated."""
        raise NotImplementedError  # Every policy has its own.

    def forget(self, request: Request) -> None:
        """Free the resources of a trajectory that has ended."""

    async def aclose(self) -> None:
        """Close connections; the policy can't reply afterwards."""


class BatchPolicy(Policy):
    """Policy of a function of a batch of chats, such as a local model.

    The function runs in a thread, one call at a time. Chats that arrive during a call form the next batch.
    """

    def __init__(self, function: Callable[[list[Chat]], Sequence[str | Choice | None]], max_batch: int = 64):
        """Make a policy of a function.

        Args:
            function: Takes 1 to `max_batch` chats; returns a reply for each, a string or a `Choice`. None is an empty
                completion.
            max_batch: Maximum batch size.
        """
        self._function, self._max_batch = function, max_batch
        self._waiting: deque[tuple[Chat, asyncio.Future[Choice]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def reply(self, request: Request) -> Choice:
        """Return the function's reply; raise `PolicyError` if the function raises or returns something else."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Choice] = loop.create_future()
        self._waiting.append(([dict(message) for message in request.messages], future))
        if self._worker is None:
            self._worker = loop.create_task(self._work())
        return await future

    async def _work(self) -> None:
        try:
            await asyncio.sleep(0)  # other requests arrive in the same iteration of the loop
            while self._waiting:
                taken = [self._waiting.popleft() for _ in range(min(self._max_batch, len(self._waiting)))]
                taken = [(chat, future) for chat, future in taken if not future.cancelled()]
                answers = await self._answers([chat for chat, _ in taken]) if taken else []
                for (_, future), answer in zip(taken, answers, strict=True):
                    if future.cancelled():  # while the function ran
                        continue
                    if isinstance(answer, PolicyError):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)
        finally:
            self._worker = None

    async def _answers(self, chats: list[Chat]) -> list[Choice | PolicyError]:
        try:
            replies = list(await asyncio.to_thread(self._function, chats))
        except Exception as error:  # an exception of the user's function ends these episodes only
            return [PolicyError(f"the function raised {type(error).__name__}: {error}") for _ in chats]
        if len(replies) != len(chats):
            return [PolicyError(f"expected {len(chats)} replies from the function, got {len(replies)}.") for _ in chats]
        return list(map(choice_of_reply, replies))


def choice_of_reply(reply: Any) -> Choice | PolicyError:
    """Return the choice of a reply of a user's function, or the error of a reply that is neither text nor a choice."""
    if isinstance(reply, Choice):
        return reply
    if reply is None or isinstance(reply, str):
        return Choice(Message(reply))
    return PolicyError(f"expected a string or a Choice from the function, got {reprlib.repr(reply)}.")
