"""Our AgentGym servers and the clients, tasks and evaluator of AgentGym itself; skipped without a checkout.

    AGENTGYM_SRC=/path/to/AgentGym pytest tests/conformance/clients/test_agentgym.py

No package index has `agentenv`. The client of BabyAI also plays `frozen_lake`, since it reads the keys of AgentGym's
guide.
"""

import contextlib
import importlib
import io
import math
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conformance import run
from tests.conformance.clients import policies
from tests.conformance.clients.policies import Messages, Policy

SOURCE = Path(os.environ.get("AGENTGYM_SRC") or "nowhere") / "agentenv"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        not SOURCE.exists(), reason="no package index has AgentGym's clients: set AGENTGYM_SRC to a checkout"
    ),
]

LEVELS = 200
SECONDS = 30
MOST_TURNS = 60
AT_ONCE = 32


def react(action: str) -> str:
    return f"Thought:\nOn.\n\nAction:\n{action}"


def lake(messages: Messages, turn: int) -> str:
    """Reply as `policies.frozen_lake` does, in the form of AgentGym's agents."""
    found = re.search(r"<action>(.*)</action>", policies.frozen_lake(messages, turn))
    return react(found[1] if found else "up")


def babyai(messages: Messages, _: int) -> str:
    """Reply with the offered action that goes to the goal's object; look around until one is offered."""
    texts = [message["content"] for message in messages]
    goal = next(found[1] for text in texts if (found := re.search(r"Your goal: go to (?:the|a) (\w+ \w+)", text)))
    offered = re.search(rf'"(go to {goal} \d+)"', texts[-1])
    return react(offered[1] if offered else "turn right" if len(texts) % 4 else "move forward")


class Case(NamedTuple):
    """A game of ours and the classes of AgentGym that play it.

    Attributes:
        client, task: Names in `agentenv.envs`.
        action: An action that is always legal.
        make_policy: Makes a policy that solves the game.
        keys: What the client reads from an answer of /step.
        indices: Values of data_idx to play.
        answers_after_end: Whether a step after the end is answered as the last step was; AgentGym's server of BabyAI
            answers an error instead, at which its client raises a KeyError.
    """

    client: str
    task: str
    action: str
    make_policy: Callable[[], Policy]
    keys: frozenset[str]
    indices: tuple[int, ...]
    answers_after_end: bool = True


KEYS = frozenset({"observation", "reward", "done"})
CASES = {
    "textcraft": Case("TextCraftEnvClient", "TextCraftTask", "inventory", policies.TextCraft, KEYS, (0, 1, 5, 40)),
    "frozen_lake": Case("BabyAIEnvClient", "BabyAITask", "left", lambda: lake, KEYS | {"score"}, (0, 40, 80, 120)),
    "babyai": Case(
        "BabyAIEnvClient", "BabyAITask", "turn left", lambda: babyai, KEYS | {"score"}, (0, 1, 40, 2), False
    ),
}


class Server:
    """A served game; `post` and `get` call it over HTTP, `client` makes AgentGym's client."""

    def __init__(self, name: str, url: str) -> None:
        self.case, self.url = CASES[name], url
        self.requests = importlib.import_module("requests")
        self.envs = importlib.import_module("agentenv.envs")
        self.controller = importlib.import_module("agentenv.controller")

    def post(self, path: str, body: Any = None, **given: Any) -> Any:
        return self.requests.post(f"{self.url}/{path}", json=body, timeout=SECONDS, **given)

    def get(self, path: str, **query: Any) -> Any:
        return self.requests.get(f"{self.url}/{path}", params=query, timeout=SECONDS)

    @contextlib.contextmanager
    def created(self) -> Iterator[int]:
        """Yield the id of a new environment."""
        number = self.post("create", {}).json()["id"]
        yield number
        self.post("close", {"id": number})

    def arguments(self) -> dict[str, Any]:
        return {"env_server_base": self.url, "data_len": LEVELS, "timeout": SECONDS}

    def client(self) -> Any:
        return getattr(self.envs, self.case.client)(**self.arguments())

    def task(self) -> Any:
        return getattr(self.envs, self.case.task)(client_args=self.arguments(), n_clients=1)

    def play(self, client: Any, index: int) -> Any:
        """Play an episode with the client; return what its last step gave."""
        client.reset(index)
        messages, policy, last = [{"role": "user", "content": client.observe()}], self.case.make_policy(), None
        for turn in range(1, MOST_TURNS + 1):
            reply = policy(messages, turn)
            last = client.step(reply)
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": last.state}]
            if last.done:
                break
        return last


@pytest.fixture(scope="module", params=list(CASES))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch, run.served(("agentgym", "--env", request.param)) as url:
        patch.syspath_prepend(SOURCE)
        yield Server(request.param, url)


def is_error(answer: Any) -> bool:
    """Return whether an answer is an error: AgentGym's own servers send 200 with a key `error`."""
    return 400 <= answer.status_code < 500 or (answer.status_code == 200 and bool(answer.json().get("error")))


# Over HTTP.


def test_the_server_answers_and_creates_environments_with_new_ids(server: Server) -> None:
    assert server.get("").status_code == 200
    with server.created() as one, server.created() as other:
        assert isinstance(one, int)
        assert one != other
    for body in ({}, {"minecraft_dir": "x", "commands": None, "goal": None}):
        created = server.post("create", body)
        assert created.status_code == 200
        server.post("close", {"id": created.json()["id"]})


def test_answers_have_the_keys_that_the_client_reads(server: Server) -> None:
    with server.created() as number:
        begun = server.post("reset", {"id": number, "data_idx": server.case.indices[0]}).json()
        assert begun["observation"]
        stepped = server.post("step", {"id": number, "action": server.case.action}).json()
        assert set(stepped) >= server.case.keys
        assert isinstance(stepped["observation"], str)
        assert type(stepped["done"]) is bool
        assert math.isfinite(stepped["reward"])
        seen = server.get("observation", id=number).json()
        assert seen if isinstance(seen, str) else seen["observation"]


def test_an_unknown_id_and_a_wrong_body_are_errors_and_the_session_lives(server: Server) -> None:
    unknown = 10**8
    assert is_error(server.post("step", {"id": unknown, "action": server.case.action}))
    assert is_error(server.post("reset", {"id": unknown, "data_idx": 0}))
    assert is_error(server.get("observation", id=unknown))
    with server.created() as number:
        action = server.case.action
        for body in ({"id": number}, {"action": action}, {"id": "x", "action": action}, "oops"):
            assert 400 <= server.post("step", body).status_code < 500, body
        server.post("reset", {"id": number, "data_idx": server.case.indices[0]})
        assert "error" not in server.post("step", {"id": number, "action": action}).json()


def test_close_may_come_twice_and_before_reset(server: Server) -> None:
    for is_reset in (True, False):
        number = server.post("create", {}).json()["id"]
        if is_reset:
            server.post("reset", {"id": number, "data_idx": server.case.indices[0]})
        closed = server.post("close", {"id": number})
        assert closed.status_code == 200
        assert closed.json() not in (False, {"closed": False})
        assert server.post("close", {"id": number}).status_code < 500
        assert is_error(server.post("step", {"id": number, "action": server.case.action}))
    with server.created() as number:
        assert server.post("step", {"id": number, "action": server.case.action}).status_code < 500


def test_data_idx_chooses_the_task(server: Server) -> None:
    def first(number: int, index: int) -> str:
        return server.post("reset", {"id": number, "data_idx": index}).json()["observation"]

    _, one, other, _ = server.case.indices
    with server.created() as here, server.created() as there:
        assert first(here, one) == first(here, one) == first(there, one) != first(here, other)
        for index in (-1, 10**6):
            assert server.post("reset", {"id": here, "data_idx": index}).status_code < 500


# The client.


def test_the_client_plays_tasks_one_after_another(server: Server) -> None:
    client = server.client()
    assert len(client) == LEVELS
    for index in server.case.indices:
        client.reset(index)
        assert client.observe()
        stepped = client.step(react(server.case.action))
        assert isinstance(stepped, server.controller.StepOutput)
        assert isinstance(stepped.state, str)
        assert math.isfinite(stepped.reward)
    client.close()


def test_the_client_takes_replies_of_any_form(server: Server) -> None:
    client, reply = server.client(), react(server.case.action)
    client.reset(server.case.indices[0])
    odd = (f"{reply}\n\n{reply}", "I am lost", "", react("dance wildly"), react("%$#!"), react("a " * 5000))
    for content in odd:
        stepped = client.step(content)
        assert isinstance(stepped.state, str)
        assert stepped.done is False
    client.step(reply)
    client.close()


def test_the_policy_solves_the_tasks_and_a_step_after_the_end_stays_there(server: Server) -> None:
    client = server.client()
    for index in server.case.indices:
        last = server.play(client, index)
        assert last.done
        assert last.reward > 0
        if server.case.answers_after_end:
            assert client.step(react(server.case.action)).done
        else:
            with pytest.raises(KeyError):
                client.step(react(server.case.action))
    client.reset(server.case.indices[0])
    client.step(react(server.case.action))
    client.close()


def test_the_task_and_the_evaluator_of_agentgym_run(server: Server) -> None:
    case = server.case

    class Scripted(server.controller.APIAgent):
        def __init__(self) -> None:
            self.policy, self.turn = case.make_policy(), 0

        def generate(self, conversation: Messages) -> tuple[str, None]:
            if sum(message["role"] == "user" for message in conversation) == 2:  # the guide and the first observation
                self.policy, self.turn = case.make_policy(), 0
            self.turn += 1
            return self.policy(conversation, self.turn), None

    task = server.task()
    with contextlib.redirect_stdout(io.StringIO()):
        experiences = task.generate_experience(Scripted(), list(case.indices), None, MOST_TURNS)
    assert all(experience.reward > 0 for experience in experiences)
    evaluated = server.controller.Evaluator(Scripted(), [task]).eval(None, MOST_TURNS, [case.indices[0]])
    assert evaluated.score > 0
    task.clients[0].close()


def test_clients_at_once_are_isolated(server: Server) -> None:
    def one(number: int) -> int:
        client, index = server.client(), server.case.indices[number % 4]
        client.reset(index)
        seen = client.observe()
        for _ in range(number % 4):
            client.step(react(server.case.action))
        client.reset(index)
        assert client.observe() == seen
        client.close()
        return client.env_id

    with ThreadPoolExecutor(AT_ONCE) as threads:
        assert len(set(threads.map(one, range(AT_ONCE)))) == AT_ONCE


def test_steps_at_once_of_one_environment_are_all_answered(server: Server) -> None:
    with server.created() as number, ThreadPoolExecutor(8) as threads:
        server.post("reset", {"id": number, "data_idx": server.case.indices[0]})
        step = {"id": number, "action": server.case.action}
        answers = list(threads.map(lambda _: server.post("step", step).json(), range(32)))
    assert all("observation" in answer for answer in answers)
