"""The adapters for slime, verifiers and AReaL, with stand-ins for slime and verifiers."""

import asyncio
import dataclasses
import types
from collections.abc import Iterator
from typing import Any

import pytest

from jaxgym.serve import episodes
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.trainers.areal import GameWorkflow
from tests.serve import chat_server, corridor
from tests.serve.fake_modules import imported
from tests.serve.replay import replay

RIGHT, END = "<right>", "~"
CONFIG = {"name": "corridor", "seed": 3, "size": None}
METRICS = {"success": 1.0, "turns": 3.0, "invalid_replies": 0.0}


@pytest.fixture(scope="module", autouse=True)
def pool() -> Iterator[SessionPool]:
    corridor.register()
    made = SessionPool(capacity=64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episodes, "_pools", [made])
        yield made


# slime: a token is a character.


class Status:
    PENDING, COMPLETED, TRUNCATED, ABORTED = "pending", "completed", "truncated", "aborted"


@dataclasses.dataclass
class Sample:
    """Sample of slime; tokens of the model need log probabilities, others must not have them."""

    Status = Status
    metadata: dict[str, Any]
    tokens: list[int] = dataclasses.field(default_factory=list)
    response: str = ""
    response_length: int = 0
    loss_mask: list[int] | None = None
    rollout_log_probs: list[float] | None = None
    reward: float | None = None
    status: str = Status.PENDING

    def append_response_tokens(
        self,
        args: Any,
        *,
        tokens: list[int],
        log_probs: list[float] | None = None,
        trainable: bool,
        meta_info: Any = None,
        text: str = "",
    ) -> None:
        assert args is not None
        assert trainable == (log_probs is not None)
        self.tokens, self.response = self.tokens + tokens, self.response + text
        self.response_length += len(tokens)
        self.loss_mask = (self.loss_mask or []) + [int(trainable)] * len(tokens)
        self.status = {"abort": Status.ABORTED}.get((meta_info or {}).get("finish_reason", {}).get("type"), self.status)


class Tokenizer:
    all_special_ids = (ord(END),)

    def apply_chat_template(self, chat: list[dict[str, str]], **_: Any) -> str:
        return "".join(f"[{message['role']}]{message['content']}{END}" for message in chat) + "[assistant]"

    def encode(self, text: str, **_: Any) -> list[int]:
        return list(map(ord, text))

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return "".join(map(chr, ids)).replace(END if skip_special_tokens else "", "")


class Engine:
    """Repeats a reply, and keeps the contexts and the numbers of tokens that it may generate."""

    def __init__(self, reply: str = RIGHT, reason: str = "stop") -> None:
        self.reply, self.reason = reply, reason
        self.contexts: list[str] = []
        self.limits: list[int] = []

    async def post(self, url: str, payload: dict[str, Any]) -> dict[str, Any]:
        assert url == "http://host:1/generate"
        self.contexts.append("".join(map(chr, payload["input_ids"])))
        self.limits.append(payload["sampling_params"]["max_new_tokens"])
        pairs = [[-0.5, ord(letter), None] for letter in self.reply + END]
        meta_info = {"output_token_logprobs": pairs, "finish_reason": {"type": self.reason}}
        return {"text": self.reply + END, "meta_info": meta_info}


def generated(
    engine: Engine, config: dict[str, Any] = CONFIG, length: int = 9999, context: int | None = None
) -> Sample:
    router = {"sglang_router_ip": "host", "sglang_router_port": 1, "use_rollout_routing_replay": False}
    args = types.SimpleNamespace(**router, rollout_max_context_len=context)
    state = types.SimpleNamespace(tokenizer=Tokenizer(), processor=None)
    modules = {
        "slime.rollout.sglang_rollout": {"GenerateState": lambda _: state},
        "slime.utils.http_utils": {"post": engine.post},
    }
    sample = Sample({"env_config": config}, tokens=[1], loss_mask=[1], response_length=1)  # as after an abort
    with imported("slime", modules) as slime:
        return asyncio.run(slime.generate(args, sample, {"max_new_tokens": length}))


def test_slime_gets_the_texts_and_the_reward_of_a_session(pool: SessionPool) -> None:
    engine = Engine()
    sample = generated(engine)
    (system_prompt, *texts), results = replay(pool, CONFIG, [RIGHT] * 3)
    first = f"[system]{system_prompt}{END}[user]{texts[0]}{END}[assistant]"
    second = f"{first}{RIGHT}{END}[user]{texts[1]}{END}[assistant]"
    assert engine.contexts == [first, second, f"{second}{RIGHT}{END}[user]{texts[2]}{END}[assistant]"]
    assert "".join(map(chr, sample.tokens)) == f"{engine.contexts[-1]}{RIGHT}{END}"
    assert sample.loss_mask is not None
    trained = [token for token, mask in zip(sample.tokens[len(first) :], sample.loss_mask, strict=True) if mask]
    assert "".join(map(chr, trained)) == (RIGHT + END) * 3
    assert (sample.reward, sample.status) == (results[-1].total_reward, Status.COMPLETED)
    assert sample.metadata == {"env_config": CONFIG, "turn_rewards": [result.reward for result in results], **METRICS}
    assert engine.limits == [9999, *(9999 - len(context) + len(first) for context in engine.contexts[1:])]
    assert len(pool) == 0


@pytest.mark.parametrize(("length", "context"), [(90, None), (9999, 250)])
def test_a_sample_of_slime_stops_before_a_text_that_does_not_fit(
    pool: SessionPool, length: int, context: int | None
) -> None:
    sample = generated(Engine("hm"), length=length, context=context)
    assert "".join(map(chr, sample.tokens)).endswith(f"hm{END}")
    assert sample.response_length <= length
    assert context is None or len(sample.tokens) <= context
    assert (sample.status, sample.reward) == (Status.TRUNCATED, 0.0)
    assert sample.metadata["invalid_replies"] == sample.metadata["turns"] > 1
    assert len(pool) == 0


def test_an_aborted_sample_of_slime_stays_aborted(pool: SessionPool) -> None:
    sample = generated(Engine(reason="abort"))
    assert (sample.status, sample.metadata["turn_rewards"]) == (Status.ABORTED, [])
    assert len(pool) == 0


# verifiers.


class Base:
    """Base class of the classes of verifiers that matter here; keeps its arguments as attributes."""

    def __class_getitem__(cls, _: Any) -> type:
        return cls

    def __init__(self, *args: Any, **named: Any) -> None:
        self.args = args
        self.__dict__.update(named)


class Taskset(Base):
    def __init__(self, config: Any) -> None:
        self.config = config


class Harness(Base):
    def resolve_prompt(self, data: Any) -> tuple[str | None, Any]:
        return None, data.prompt


NAMES = ("TasksetConfig", "TaskData", "State", "TaskConfig", "Task", "EnvConfig", "AgentConfig", "SubprocessConfig")
VERIFIERS = {
    "verifiers.v1": {
        **dict.fromkeys((*NAMES, "Env", "HarnessConfig", "ProgramResult"), Base),
        **{"Taskset": Taskset, "Harness": Harness},
    },
    "verifiers.v1.dialects.chat": {"message_to_wire": lambda message: {**message, "is_wire": True}},
}


class Interaction:
    """Interaction with a player that repeats a reply; it ends after some turns."""

    def __init__(self, reply: str, turns: int) -> None:
        self.reply, self.turns = reply, turns
        self.said: list[list[dict[str, Any]]] = []
        self.rewards: dict[str, float] = {}
        self.metrics: dict[str, float] = {}
        self.trace = types.SimpleNamespace(
            record_reward=self.rewards.__setitem__, record_metric=self.metrics.__setitem__
        )

    async def __aenter__(self) -> "Interaction":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def turn(self, messages: list[dict[str, Any]]) -> Any:
        self.said.append(messages)
        is_over = len(self.said) > self.turns
        return types.SimpleNamespace(terminated=is_over, last_reply="" if is_over else self.reply)


@pytest.mark.parametrize(("turns", "rewarded"), [(99, 3), (2, 2)])
def test_verifiers_gets_the_texts_and_the_reward_of_a_session(pool: SessionPool, turns: int, rewarded: int) -> None:
    interaction = Interaction(RIGHT, turns)
    player = types.SimpleNamespace(interaction=lambda _: interaction)
    task = types.SimpleNamespace(data=types.SimpleNamespace(env_config=CONFIG))
    with imported("verifiers", VERIFIERS) as verifiers:
        asyncio.run(verifiers.GameEnv().run(task, types.SimpleNamespace(player=player)))
    (system_prompt, *texts), results = replay(pool, CONFIG, [RIGHT] * 3)
    users = [[{"role": "user", "content": text}] for text in texts[:3]]
    assert interaction.said == [[{"role": "system", "content": system_prompt}, *users[0]], *users[1:]]
    assert interaction.rewards == {"total_reward": sum(result.reward for result in results[:rewarded])}
    assert interaction.metrics == {"success": float(rewarded == 3), "turns": float(rewarded), "invalid_replies": 0.0}
    assert len(pool) == 0


def test_the_taskset_of_verifiers_has_one_task_for_each_row() -> None:
    config = {"games": ["corridor"], "num_rows": 2, "options": {"max_turns": 9}, "split": "train", "start": 5}
    with imported("verifiers", VERIFIERS) as verifiers:
        tasks = list(verifiers.GameTaskset(types.SimpleNamespace(**config, task=None)).load())
    assert [task.args[0].name for task in tasks] == ["corridor#5", "corridor#6"]
    assert tasks[1].args[0].env_config == {"name": "corridor", "seed": 6, "max_turns": 9}


@pytest.mark.parametrize(("answer", "code"), [("Hello!", 0), (500, 1)])
def test_the_harness_of_verifiers_requests_a_completion(answer: Any, code: int) -> None:
    bodies = list[dict[str, Any]]()
    with (
        imported("verifiers", VERIFIERS) as verifiers,
        chat_server.serving(lambda body: bodies.append(body) or answer) as url,
    ):
        ctx, data = types.SimpleNamespace(model="tiny"), types.SimpleNamespace(prompt=[{"role": "user"}])
        result = asyncio.run(verifiers.GameHarness().launch(ctx, None, None, url, "secret", {}, data))
    assert bodies == [{"model": "tiny", "messages": [{"role": "user", "is_wire": True}]}]
    assert result.args[0] == code


# AReaL.


def test_areal_gets_the_texts_and_the_reward_of_a_session(pool: SessionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = list[dict[str, Any]]()
    workflow = GameWorkflow({"temperature": 0.5})
    with chat_server.serving(lambda body: bodies.append(body) or RIGHT) as url:
        total = asyncio.run(workflow.run({"env_config": CONFIG}, base_url=url, api_key="none"))
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        assert asyncio.run(workflow.run({"env_config": CONFIG})) == total
    (system_prompt, *texts), results = replay(pool, CONFIG, [RIGHT] * 3)
    assert type(total) is float
    assert total == results[-1].total_reward
    chat = [{"role": "system", "content": system_prompt}]
    for text in texts[:3]:
        chat += [{"role": "user", "content": text}, {"role": "assistant", "content": RIGHT}]
    assert bodies[2] == {"model": "default", "messages": chat[:-1], "temperature": 0.5}
    assert bodies[3:] == bodies[:3]
    assert len(pool) == 0


def test_an_error_of_the_endpoint_of_areal_rejects_the_trajectory(pool: SessionPool) -> None:
    openai = pytest.importorskip("openai")
    with chat_server.serving(lambda _: 400) as url, pytest.raises(openai.BadRequestError):
        asyncio.run(GameWorkflow().run({"env_config": CONFIG}, base_url=url, api_key="none"))
    assert len(pool) == 0
