"""Policies, which reply to chats: an endpoint, or a function of a batch of chats, such as a local model."""

import asyncio
import dataclasses
import importlib
import os
import reprlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxgym import extras
from jaxgym.errors import OptionError

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


_WORTH_ANOTHER_TRY = (408, 409, 425, 429)
_SERVER_ERRORS = 500
_FIXES = {
    401: ". Set the environment variable OPENAI_API_KEY.",
    404: ". Check the URL, which ends in /v1 on most servers, and --model-name.",
}
"""Advice for a failed request, by the status of its response."""


class EndpointPolicy(Policy):
    """Policy that requests chat completions; for one event loop.

    Attributes:
        model: The model's name; None before the first reply if the endpoint selects it.
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        api_key: str | None = None,
        sampling: Mapping[str, Any] | None = None,
        timeout_seconds: float = 120.0,
    ):
        """Make a client; it sends no request before the first reply.

        Args:
            url: The base URL, such as `http://localhost:8000/v1`.
            model: The model's name; if None, the first that the endpoint lists.
            api_key: The key; if None, the environment variable `OPENAI_API_KEY`, if it is set.
            sampling: Arguments of a completion, such as `temperature` and `max_tokens`.
            timeout_seconds: Timeout of a request in seconds.

        Raises:
            ImportError: If the package `openai` is missing.
        """
        try:
            self._openai: Any = importlib.import_module("openai")
        except ImportError as error:
            raise ImportError(extras.missing("rollout", "openai")) from error
        key = api_key or os.environ.get("OPENAI_API_KEY") or "none"
        self._client = self._openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0, timeout=timeout_seconds)
        self._url, self.model, self._sampling = url, model, dict(sampling or {})
        self._naming = asyncio.Lock()
        self._has_replied = False

    async def reply(self, request: Request) -> Choice:
        """Return the completion of a chat, or raise `PolicyError` if the endpoint fails or returns something else.

        A completion without text, such as `content: null`, is valid. The failure is final if the server can't be
        reached and has never replied: then the URL is probably wrong.
        """
        try:
            model = await self._name()
            # The client copies `messages` part by part, which takes longer than a turn of a long chat with images.
            answer = await self._client.chat.completions.create(
                model=model, messages=[], extra_body={"messages": request.messages}, **self._sampling
            )
            choice, usage = answer.choices[0], getattr(answer, "usage", None)
            content = getattr(choice.message, "content", None)
            if choice.message is None or not isinstance(content, str | list | None):
                raise ValueError(f"its first choice has the message {choice.message!r}")
        except PolicyError:
            raise
        except self._openai.APIStatusError as error:
            is_final = error.status_code < _SERVER_ERRORS and error.status_code not in _WORTH_ANOTHER_TRY
            fix = _FIXES.get(error.status_code, "")
            reason = f"{self._url}: expected a completion, got status {error.status_code}: {error.message}{fix}"
            raise PolicyError(reason, is_final=is_final) from error
        except (self._openai.OpenAIError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            # Some versions of openai use httpx and others httpx2, so the name identifies the class of the error.
            is_unreachable = type(error.__cause__).__name__ == "ConnectError"
            raise PolicyError(
                f"{self._url}: expected a completion of OpenAI's chat API, got {type(error).__name__}: "
                f"{str(error).rstrip('.')}. Check the URL, which ends in /v1 on most servers, and that the server is "
                "running.",
                is_final=is_unreachable and not self._has_replied,
            ) from error
        self._has_replied = True
        reason = getattr(choice, "finish_reason", None)
        return Choice(
            Message(content),
            reason if isinstance(reason, str) else None,
            _tokens(usage, "prompt_tokens"),
            _tokens(usage, "completion_tokens"),
        )

    async def aclose(self) -> None:
        """Close the connections to the endpoint."""
        await self._client.close()

    async def _name(self) -> str:
        async with self._naming:
            if self.model is None:
                listed = await self._client.models.list()
                if not listed.data:
                    raise PolicyError(f"{self._url} lists no model. Pass --model-name.", is_final=True)
                self.model = str(listed.data[0].id)
            return self.model


def _tokens(usage: Any, name: str) -> int | None:
    """Return a number of tokens, or None if the endpoint does not report it."""
    count = getattr(usage, name, None)
    return count if type(count) is int and count >= 0 else None


def local_model(
    folder: Path,
    *,
    max_tokens: int = 256,
    temperature: float = 1.0,
    top_p: float | None = None,
    seed: int | None = None,
) -> Callable[[list[Chat]], list[Choice]]:
    """Load a model and its tokenizer from a folder, without downloads; on a GPU if there is one, else on the CPU.

    Args:
        folder: Folder that `save_pretrained` of the model and the tokenizer has written.
        max_tokens: Maximum number of tokens of a reply.
        temperature: Sampling temperature; 0 selects the most likely token.
        top_p: Probability mass of nucleus sampling; None uses that of the model's folder.
        seed: Seed of torch's random numbers; None leaves them as they are. Equal batches then get equal replies.

    Returns:
        A function that takes chats and returns a reply for each, with the number of tokens of prompt and reply.

    Raises:
        ImportError: If `transformers` or `torch` is missing.
        OptionError: If the folder contains no model.
    """
    torch, transformers = _packages()
    if not (folder / "config.json").exists():
        raise OptionError(f"{folder}: expected a folder written by save_pretrained, got one without a config.json.")
    tokenizer = from_folder(transformers.AutoTokenizer, folder, padding_side="left")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = from_folder(transformers.AutoModelForCausalLM, folder, dtype="auto").to(device)
    model.eval()
    if seed is not None:
        torch.manual_seed(seed)
    sampling: dict[str, Any] = {"do_sample": temperature > 0}
    if temperature > 0:
        sampling |= {"temperature": temperature, **({} if top_p is None else {"top_p": top_p})}
    ends = _ends(model, tokenizer)

    def replies(chats: list[Chat]) -> list[Choice]:
        prompts = [prompt_of(tokenizer, chat) for chat in chats]
        batch = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False).to(device)
        with torch.no_grad():
            made = model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                max_new_tokens=max_tokens,
                pad_token_id=tokenizer.pad_token_id,
                **sampling,
            )
        tokens = made[:, batch["input_ids"].shape[1] :]
        texts = tokenizer.batch_decode(tokens, skip_special_tokens=True)
        prompt_sizes = batch["attention_mask"].sum(1).tolist()
        return [
            choice_of(text, written, size, ends)
            for text, written, size in zip(texts, tokens.tolist(), prompt_sizes, strict=True)
        ]

    return replies


def from_folder(loader: Any, folder: Path, **arguments: Any) -> Any:
    """Return what a class of transformers loads from a folder, without downloads.

    Raises:
        OptionError: If the class can't read the folder.
    """
    try:
        return loader.from_pretrained(folder, local_files_only=True, **arguments)
    except Exception as error:  # transformers, tokenizers and safetensors raise errors of many classes for bad files
        reason = str(error).strip().partition("\n")[0]
        raise OptionError(
            f"{folder}: expected a folder written by save_pretrained of the model and of the tokenizer, got "
            f"{type(error).__name__}: {reason}"
        ) from error


def _packages() -> tuple[Any, Any]:
    try:
        return importlib.import_module("torch"), importlib.import_module("transformers")
    except ImportError as error:
        raise ImportError(extras.missing("rollout", error.name, beside=("torch", "transformers"))) from error


def choice_of(text: str, tokens: Sequence[int], prompt_tokens: int, ends: set[int]) -> Choice:
    """Return the choice of a generated row: its text, and its tokens, perhaps with an end token and padding."""
    size = next((place for place, token in enumerate(tokens, 1) if token in ends), None)
    reason = "length" if size is None else "stop"
    return Choice(Message(text), reason, prompt_tokens, len(tokens) if size is None else size)


def _ends(model: Any, tokenizer: Any) -> set[int]:
    given = getattr(model.generation_config, "eos_token_id", None)
    given = tokenizer.eos_token_id if given is None else given
    return set(given) if isinstance(given, list | tuple) else {given}


def prompt_of(tokenizer: Any, chat: Chat) -> str:
    """Return the text of a chat with the start of a reply, by the chat template of the tokenizer if it has one."""
    if tokenizer.chat_template:
        return tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    said = "".join(f"{message['role']}: {message['content']}\n\n" for message in chat)
    return f"{said}assistant: "
