"""Policy of an OpenAI-compatible endpoint, such as a server of vLLM or SGLang, or a hosted model."""

import asyncio
import importlib
import os
from collections.abc import Mapping
from typing import Any

from jaxgym import extras
from jaxgym.serve.rollout.policies import Choice, Message, Policy, PolicyError, Request

_WORTH_ANOTHER_TRY = (408, 409, 425, 429)
_SERVER_ERRORS = 500
_FIXES = {
    401: ". Set the environment variable OPENAI_API_KEY.",
    404: ". Check the URL, which ends in /v1 on most servers, and --model-name.",
}
"""How to mend a request, by the status of its response."""


class EndpointPolicy(Policy):
    """Policy that requests chat completions; for one event loop."""

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
        self._url, self._model, self._sampling = url, model, dict(sampling or {})
        self._naming = asyncio.Lock()

    @property
    def model(self) -> str | None:
        """The model's name; None before the first reply if the endpoint selects it."""
        return self._model

    async def reply(self, request: Request) -> Choice:
        """Return the completion of a chat, or raise `PolicyError` if the endpoint fails or returns something else.

        A completion without text, such as `content: null`, is valid.
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
        except self._openai.OpenAIError as error:
            raise PolicyError(
                f"{self._url}: the request failed: {type(error).__name__}: {error} Check the URL, and that the server "
                "is running."
            ) from error
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise PolicyError(
                f"{self._url}: expected a completion of OpenAI's chat API, got another response "
                f"({type(error).__name__}: {error}). Check the URL, which ends in /v1 on most servers."
            ) from error
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
            if self._model is None:
                listed = await self._client.models.list()
                if not listed.data:
                    raise PolicyError(f"{self._url} lists no model. Pass --model-name.", is_final=True)
                self._model = str(listed.data[0].id)
            return self._model


def _tokens(usage: Any, name: str) -> int | None:
    """Return a number of tokens, or None if the endpoint does not report it."""
    count = getattr(usage, name, None)
    return count if type(count) is int and count >= 0 else None
