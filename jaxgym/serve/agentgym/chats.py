"""The conversations of AgentGym's tasks with an agent, in messages or in tokens, and what is kept of them."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from jaxgym.serve.agentgym.formats import APIConversationMessage, ConversationMessage, ConversationStart
from jaxgym.serve.messages import content_text

_MAX_LENGTH = 4096


@dataclasses.dataclass
class StepOutput:
    """What a reply led to: the next text, the reward, and whether the episode has ended."""

    state: str
    reward: float
    done: bool


@dataclasses.dataclass
class ExperienceOutput:
    """An episode of an agent that works on tokens; the masks have an entry for each of `seq_ids`."""

    conversation: list[ConversationMessage]
    reward: float
    text: str
    seq_ids: list[int]
    attention_mask: list[int]
    action_mask: list[int]


@dataclasses.dataclass
class APIExperienceOutput:
    """An episode of an agent that works on messages."""

    conversation: list[APIConversationMessage]
    reward: float


@dataclasses.dataclass
class EvaluationOutput:
    """Some episodes, the mean of their rewards, and the share of those that are 1 or 100."""

    experiences: list[ExperienceOutput | APIExperienceOutput]
    score: float
    success: float


class Agent(Protocol):
    """What plays: from the messages so far it makes the next one, alone or with what was thought to get there.

    An agent with a `tokenizer` and a `chat_template`, as AgentGym's `Agent`, works on tokens instead: it gets a list of
    lists of them, and settings, and returns a list of lists.
    """

    def generate(self, conversation: list[APIConversationMessage], /) -> str | tuple[str, str | None]:
        """Returns a reply."""
        ...


class Messages:
    """The conversation of an agent that works on messages."""

    def __init__(self, agent: Agent, start: ConversationStart, state: str):
        self._agent = agent
        self._messages = list[APIConversationMessage]()
        for role, content in (("user", start[0]["value"]), ("assistant", start[1]["value"]), ("user", state)):
            self._add(role, content, None)

    def reply(self) -> str:
        """Returns the next reply."""
        made = self._agent.generate(self._messages)
        content, thought = made if isinstance(made, tuple) else (made, None)
        content = content_text(content)  # a completion may have none
        self._add("assistant", content, thought)
        return content

    def tell(self, state: str) -> None:
        """Adds what the reply led to."""
        self._add("user", state, None)

    def experience(self, reward: float) -> APIExperienceOutput:
        """Returns what is kept."""
        return APIExperienceOutput(self._messages, reward)

    def _add(self, role: str, content: str, thought: str | None) -> None:
        self._messages.append({"role": role, "content": content, "reasoning_content": thought})


class Tokens:
    """The conversation of an agent that works on tokens."""

    def __init__(self, agent: Any, start: ConversationStart, state: str, settings: Any):
        self._agent, self._settings = agent, settings
        self._most = getattr(settings, "max_length", None) or _MAX_LENGTH
        self._conversation: list[ConversationMessage] = [*start, {"from": "human", "loss": None, "value": state}]
        self._all = dict(
            agent.chat_template.tokenize_conversation(self._conversation, agent.tokenizer, add_generation_prompt=True)
        )

    def reply(self) -> str | None:
        """Returns the next reply, or None where there is no room for one."""
        if len(self._all["input_ids"]) >= self._most:
            return None
        tokenizer = self._agent.tokenizer
        tokens = list(self._agent.generate([self._all["input_ids"]], self._settings)[0])
        if tokens[-1:] != [tokenizer.eos_token_id]:
            tokens.append(tokenizer.eos_token_id)
        text = tokenizer.decode(tokens)
        self._extend({"text": f" {text}", "input_ids": tokens, "action_mask": [1] * len(tokens)})
        text = text.removesuffix(tokenizer.eos_token)
        self._conversation.append({"from": "gpt", "loss": True, "value": text})
        return text

    def tell(self, state: str) -> None:
        """Adds what the reply led to."""
        message: ConversationMessage = {"from": "human", "loss": None, "value": state}
        self._conversation.append(message)
        template = self._agent.chat_template
        self._extend(template.tokenize_conversation_one(message, self._agent.tokenizer, add_generation_prompt=True))

    def experience(self, reward: float) -> ExperienceOutput:
        """Returns what is kept."""
        ids = self._all["input_ids"]
        return ExperienceOutput(
            self._conversation, reward, self._all["text"], ids, [1] * len(ids), self._all["action_mask"]
        )

    def _extend(self, part: Mapping[str, Any]) -> None:
        self._all = {name: self._all[name] + part[name] for name in self._all}
