"""Who plays: anything that answers a chat."""

import asyncio
import dataclasses
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Chat = list[dict[str, Any]]
"""Messages with `role` and `content`, oldest first."""


class PolicyError(RuntimeError):
    """A policy has no reply.

    Attributes:
        is_final: Whether asking again is of no use.
    """

    def __init__(self, reason: str, *, is_final: bool = False):
        """Take one sentence that says why."""
        super().__init__(reason)
        self.is_final = is_final


class Message(NamedTuple):
    """A completion of a policy.

    Attributes:
        content: The text, or parts as chat clients have them. None is a completion without text.
        role: "assistant".
    """

    content: Any
    role: str = "assistant"


class Choice(NamedTuple):
    """A reply, with the names that ms-swift and chat endpoints give to its parts.

    Attributes:
        message: What was said.
        finish_reason: "stop", "length" where a limit of tokens cut it, another reason of an endpoint, or None.
        prompt_tokens: Tokens of the chat, or None if unknown.
        completion_tokens: Tokens of the reply, or None if unknown.
    """

    message: Message
    finish_reason: str | None = "stop"
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclasses.dataclass
class Request:
    """A trajectory on its way, with the names that ms-swift gives to its parts.

    Attributes:
        uuid: What it is known by.
        messages: The chat so far.
        data_dict: The columns of its row; once it has started, `env_config` in it has the game's `name` and `seed`.
    """

    uuid: str
    messages: Chat
    data_dict: dict[str, Any]

    @property
    def env_config(self) -> Mapping[str, Any]:
        """The game, its seed and its options."""
        return self.data_dict.get("env_config") or {}


class Policy:
    """Answers chats; a subclass defines `reply`."""

    def check(self, name: str, options: Mapping[str, Any]) -> None:
        """Make sure, before anything is played, that a game can be played.

        Raises:
            OptionError: If it can't.
        """
        del name, options

    async def reply(self, request: Request) -> Choice:
        """Return the reply to a chat; it may be cancelled, and asked again for the same.

        Raises:
            PolicyError: If there is none.
        """
        raise NotImplementedError  # Every policy has its own.

    def forget(self, request: Request) -> None:
        """Is told that a trajectory has ended."""
        del request


class BatchPolicy(Policy):
    """A function over a batch of chats, such as a local model's generation.

    Chats that wait while the function runs make its next batch. It runs in a thread, one call at a time.
    """

    def __init__(self, function: Callable[[list[Chat]], Sequence[str | Choice | None]], max_batch: int = 64):
        """Take the function.

        Args:
            function: Takes 1 to `max_batch` chats; returns a reply for each, with its tokens as a `Choice`. None is an
                empty completion.
            max_batch: The most chats of a call.
        """
        self._function, self._max_batch = function, max_batch
        self._waiting: deque[tuple[Chat, asyncio.Future[Choice]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def reply(self, request: Request) -> Choice:
        """Return the function's reply.

        Raises:
            PolicyError: If the function raises, returns another number of replies, or one of another type.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Choice] = loop.create_future()
        self._waiting.append(([dict(message) for message in request.messages], future))
        if self._worker is None:
            self._worker = loop.create_task(self._work())
        return await future

    async def _work(self) -> None:
        try:
            await asyncio.sleep(0)  # Others ask in the same round of the loop.
            while self._waiting:
                taken = [self._waiting.popleft() for _ in range(min(self._max_batch, len(self._waiting)))]
                await self._settle([(chat, future) for chat, future in taken if not future.cancelled()])
        finally:
            self._worker = None

    async def _settle(self, taken: list[tuple[Chat, asyncio.Future[Choice]]]) -> None:
        answers = await self._answers([chat for chat, _ in taken]) if taken else []
        for (_, future), answer in zip(taken, answers, strict=True):
            if future.cancelled():  # while the function ran
                continue
            if isinstance(answer, PolicyError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    async def _answers(self, chats: list[Chat]) -> list[Choice | PolicyError]:
        try:
            replies = list(await asyncio.to_thread(self._function, chats))
        except Exception as error:  # whatever a user's function raises costs these episodes only
            return [PolicyError(f"the function raised {type(error).__name__}: {error}") for _ in chats]
        if len(replies) != len(chats):
            return [PolicyError(f"the function gave {len(replies)} replies to {len(chats)} chats.") for _ in chats]
        return list(map(_choice, replies))


def _choice(reply: Any) -> Choice | PolicyError:
    if isinstance(reply, Choice):
        return reply
    if reply is None or isinstance(reply, str):
        return Choice(Message(reply))
    return PolicyError(f"the function gave {reply!r}, which is no string.")
