"""AgentGym's client and tasks, for our server and for those of the platform that answer alike.

    from jaxgym.serve.agentgym.client import EnvClient, Task
    client = EnvClient("http://localhost:36001", data_len=200)
    client.reset(3)
    print(client.observe())
    print(client.step("Thought: I need flax.  Action: get 1 flax"))  # StepOutput(state=..., reward=..., done=...)

The names are AgentGym's, and nothing of it is needed: neither its package, nor PyTorch, nor Transformers.
"""

import concurrent.futures
import http.client
import json
import select
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

import numpy as np

from jaxgym.serve.agentgym.chats import (
    Agent,
    APIExperienceOutput,
    EvaluationOutput,
    ExperienceOutput,
    Messages,
    StepOutput,
    Tokens,
)
from jaxgym.serve.agentgym.formats import (
    TEXTCRAFT_FUNCTIONS,
    ActionFormat,
    ActionWithThought,
    Adapter,
    APIConversationMessage,
    ConversationMessage,
    ConversationStart,
    FormatError,
    Function,
)

__all__ = [
    "APIConversationMessage",
    "APIExperienceOutput",
    "ActionFormat",
    "ActionWithThought",
    "Adapter",
    "Agent",
    "ConversationMessage",
    "EnvClient",
    "EvaluationOutput",
    "Evaluator",
    "ExperienceOutput",
    "FormatError",
    "Function",
    "ServerError",
    "StepOutput",
    "Task",
    "TextCraftEnvClient",
    "TextCraftTask",
]

_OK, _NOT_FOUND = 200, 404
_SUCCESSES = (1, 100)
_SHOWN = 200


class ServerError(RuntimeError):
    """A server that can't be reached, or that refuses a call.

    Attributes:
        status: The status of its answer, or None if there was none.
    """

    def __init__(self, message: str, status: int | None = None):
        super().__init__(message)
        self.status = status


class _Connection:
    """A connection to a server that is kept open; may be used from several threads, in turns."""

    def __init__(self, base: str, timeout: float, token: str | None):
        parts = urlsplit(base.rstrip("/"))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ServerError(f"{base!r} is no address of a server; give one such as http://localhost:36001.")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._base, self._path = base.rstrip("/"), parts.path
        self._http = kind(parts.hostname, parts.port, timeout=timeout)
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._lock = threading.Lock()

    def ask(self, method: str, path: str, payload: Mapping[str, Any] | None = None) -> Any:
        """Returns what is answered.

        Raises:
            ServerError: If nothing is, or an error.
        """
        body = None if payload is None else json.dumps(payload).encode()
        with self._lock:
            try:
                if self._http.sock is not None and select.select([self._http.sock], [], [], 0)[0]:
                    self._http.close()  # A server that says something unasked has hung up.
                self._http.request(method, f"{self._path}/{path}", body, self._headers)
                response = self._http.getresponse()
                status, content = response.status, response.read()
            except (OSError, http.client.HTTPException) as error:
                self._http.close()
                raise ServerError(f"{self._base}/{path} did not answer: {error!r}.") from error
        if status != _OK:
            said = content.decode(errors="replace")[:_SHOWN]
            raise ServerError(f"{self._base}/{path} answered with status {status}: {said}", status)
        answer = json.loads(content)
        if isinstance(answer, dict) and "error" in answer:
            raise ServerError(f"{self._base}/{path} refused: {answer['error']}", status)
        return answer

    def close(self) -> None:
        """Hangs up."""
        with self._lock:
            self._http.close()


class EnvClient:
    """One environment of a server.

    Attributes:
        conversation_start: The instructions in the form of the action format, and that they were understood.
        adapter: How replies are read in each format.
        env_id: Its id.
        info: The last `observation`, `reward` and `done`, and `score` where the server keeps one.
    """

    conversation_start: ConversationStart
    adapter: ClassVar[Adapter] = Adapter()

    def __init__(
        self,
        env_server_base: str,
        data_len: int = 200,
        *,
        timeout: float = 300,
        action_format: str | ActionFormat = "react",
        token: str | None = None,
    ):
        """Creates an environment.

        Args:
            env_server_base: The address of the server, with the prefix of the environment if it has one.
            data_len: How many tasks there are: what `len` says.
            timeout: Seconds to wait for an answer.
            action_format: How replies give their action.
            token: What the server asks its callers for, if it does.

        Raises:
            ServerError: If there is no server, or it refuses.
        """
        self.action_format, self.data_len = ActionFormat(action_format), data_len
        self._connection = _Connection(env_server_base, timeout, token)
        try:
            if not hasattr(type(self), "conversation_start"):
                self.conversation_start = self.adapter.start(self.instructions(), self.action_format)
            created = self._connection.ask("POST", "create", {})
        except ServerError:
            self._connection.close()
            raise
        self.env_id: int = created["id"]
        self.info: dict[str, Any] = created if "observation" in created else {}

    def instructions(self) -> str:
        """Returns the rules of the environment as the server tells them, nothing if it tells none."""
        try:
            return self._connection.ask("GET", "instruction_text")
        except ServerError as error:
            if error.status != _NOT_FOUND:
                raise
            return ""

    def __len__(self) -> int:
        """How many tasks there are."""
        return self.data_len

    def observe(self) -> str:
        """Returns the last observation."""
        if not self.info:
            answer = self._connection.ask("GET", f"observation?id={self.env_id}")
            self.info = answer if isinstance(answer, dict) else {"observation": answer, "reward": 0.0, "done": False}
        return self.info["observation"]

    def step(self, action: str) -> StepOutput:
        """Sends the action of a reply.

        A reply that has not the format leads to a text that says so, and nothing is sent. The reward is the server's
        `score` where it keeps one, so the last reward of an episode stands for all of it.

        Raises:
            ServerError: If the server does not answer, or refuses.
        """
        try:
            said = self.adapter.parse(action, self.action_format)
        except FormatError as error:
            return StepOutput(str(error), self.info.get("score", 0.0), self.info.get("done", False))
        self.info = self._ask("step", {"action": said.action})
        return StepOutput(self.info["observation"], self.info.get("score", self.info["reward"]), self.info["done"])

    def reset(self, idx: int = 0) -> dict[str, Any]:
        """Starts a task and returns what the server says.

        Raises:
            ServerError: If the server does not answer, or refuses.
        """
        self.info = self._ask("reset", {"data_idx": idx})
        return self.info

    def close(self) -> Any:
        """Ends the environment; returns what the server says."""
        try:
            return self._ask("close", {})
        finally:
            self._connection.close()

    def _ask(self, path: str, payload: dict[str, Any]) -> Any:
        return self._connection.ask("POST", path, {"id": self.env_id, **payload})


class TextCraftEnvClient(EnvClient):
    """TextCraft, with functions of its own to call."""

    adapter = Adapter(TEXTCRAFT_FUNCTIONS)


class Task:
    """An environment with the clients that play it.

    Attributes:
        env_client_cls: The class of the clients.
        env_name: Its name.
        clients: The clients.
    """

    env_client_cls: ClassVar[type[EnvClient]] = EnvClient
    env_name: ClassVar[str] = "jaxgym"

    def __init__(self, client_args: Mapping[str, Any], n_clients: int = 1):
        """Makes the clients.

        Args:
            client_args: The arguments of each.
            n_clients: How many episodes are played at once.

        Raises:
            ServerError: If there is no server, or it refuses.
        """
        self.clients = [self.env_client_cls(**client_args) for _ in range(n_clients)]

    def __len__(self) -> int:
        """How many tasks there are."""
        return len(self.clients[0])

    def generate_experience(
        self, agent: Any, idxs: Sequence[int] | int, generation_config: Any = None, max_rounds: int | None = None
    ) -> list[ExperienceOutput | APIExperienceOutput]:
        """Plays an episode of each of some tasks.

        With several clients `agent` is called from as many threads.

        Args:
            agent: Who plays; see `Agent`.
            idxs: The numbers of the tasks, or of one.
            generation_config: Settings for an agent that works on tokens.
            max_rounds: Replies after which an episode is cut.

        Returns:
            The episodes in the order of `idxs`; the reward of each is the last one that its client gave.

        Raises:
            ServerError: If the server does not answer, or refuses.
        """
        idxs = [idxs] if isinstance(idxs, int) else list(idxs)
        shares = [(client, idxs[first :: len(self.clients)]) for first, client in enumerate(self.clients)]

        def play(share: tuple[EnvClient, list[int]]) -> list[ExperienceOutput | APIExperienceOutput]:
            return [self._play(agent, share[0], idx, generation_config, max_rounds) for idx in share[1]]

        with concurrent.futures.ThreadPoolExecutor(len(shares)) as threads:
            played = list(threads.map(play, shares))
        return [played[place % len(shares)][place // len(shares)] for place in range(len(idxs))]

    def _play(
        self, agent: Any, client: EnvClient, idx: int, settings: Any, max_rounds: int | None
    ) -> ExperienceOutput | APIExperienceOutput:
        client.reset(idx)
        start, state = client.conversation_start, client.observe()
        chat = Tokens(agent, start, state, settings) if hasattr(agent, "tokenizer") else Messages(agent, start, state)
        reward, rounds, is_over = 0.0, 0, False
        while not is_over and (max_rounds is None or rounds < max_rounds):
            reply = chat.reply()
            if reply is None:
                break
            output = client.step(reply)
            chat.tell(output.state)
            reward, rounds, is_over = output.reward, rounds + 1, output.done
        return chat.experience(reward)

    def close(self) -> None:
        """Ends all environments."""
        for client in self.clients:
            client.close()


class TextCraftTask(Task):
    """TextCraft."""

    env_client_cls = TextCraftEnvClient
    env_name = "TextCraft"


class Evaluator:
    """An agent and the tasks that it is tried on."""

    def __init__(self, agent: Any, tasks: Sequence[Task]):
        self.agent, self.tasks = agent, list(tasks)

    def generate_experience(
        self,
        idxs: Sequence[int] | Sequence[Sequence[int]] | None = None,
        generation_config: Any = None,
        max_rounds: int | None = None,
    ) -> list[ExperienceOutput | APIExperienceOutput]:
        """Plays episodes: `idxs` are numbers of the first task, or a list of them for each task, or None for all."""
        if idxs is None:
            shares: list[Any] = [range(len(task)) for task in self.tasks]
        else:
            shares = list(idxs) if idxs and not isinstance(idxs[0], int) else [cast(Sequence[int], idxs)]
        return [
            experience
            for task, share in zip(self.tasks, shares, strict=False)
            for experience in task.generate_experience(self.agent, share, generation_config, max_rounds)
        ]

    def eval(
        self,
        generation_config: Any = None,
        max_rounds: int | None = None,
        idxs: Sequence[int] | Sequence[Sequence[int]] | None = None,
    ) -> EvaluationOutput:
        """Plays episodes, see `generate_experience`, and says how they went."""
        experiences = self.generate_experience(idxs, generation_config, max_rounds)
        rewards = np.asarray([experience.reward for experience in experiences])
        return EvaluationOutput(experiences, float(rewards.mean()), float(np.isin(rewards, _SUCCESSES).mean()))
