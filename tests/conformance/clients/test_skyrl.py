"""`SkyRLEnv` in SkyRL's own generators, with scripted completions; skipped where SkyRL is absent.

The tokenizer and the inference engine are stand-ins. SkyRL makes the environment, calls it in its threads, and returns
the rewards of tokens that the trainer gets.
"""

import asyncio
import base64
import gc
import io
import json
import re
import sys
import time
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import typing_extensions
from PIL import Image

from jaxgym.serve.trainers import rows
from jaxgym.serve.trainers.skyrl import SkyRLEnv
from tests.conformance.clients import policies, trajectories
from tests.conformance.clients.chat_tokenizer import IMAGE, ChatTokenizer

if sys.version_info < (3, 12):  # SkyRL declares 3.12; its generators run on 3.11 with this class
    setattr(typing, "TypedDict", typing_extensions.TypedDict)  # noqa: B010 a type checker does not allow the assignment
skyrl_gym: Any = pytest.importorskip("skyrl_gym")
pytest.importorskip("skyrl")

from skyrl.train import config as skyrl_config  # noqa: E402
from skyrl.train.generators import base, skyrl_gym_generator, skyrl_vlm_generator  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

LAKE = {"name": "frozen_lake", "size": 4, "max_turns": 20, "invalid_reply_penalty": 0.25}
GAMES: dict[str, tuple[dict[str, Any], Callable[[], policies.Policy]]] = {
    "frozen_lake": (LAKE, lambda: policies.frozen_lake),
    "sudoku": ({"name": "sudoku"}, policies.Sudoku),
}
SEEDS = (0, 1, 2, 3)
MOST_TURNS = 80
SECONDS_TO_DROP = 60
EXAMPLE = Path(__file__).parents[3] / "examples/skyrl/frozen_lake.jsonl"


class NotedEnv(SkyRLEnv):
    """Note the steps and chats of all trajectories of a batch, by the index in its row."""

    notes: typing.ClassVar[dict[int, list[Any]]] = {}

    def init(self, prompt: Any) -> Any:
        started = super().init(prompt)
        self._note = self.notes.setdefault(self._row["index"], [])
        self._note.append(started[0])
        return started

    def step(self, action: str) -> Any:
        step = super().step(action)
        self._note.append((action, step))
        return step


skyrl_gym.register(id="jaxgym", entry_point=NotedEnv)


class Engine:
    """Inference engine with a policy for each trajectory."""

    model_name = "scripted"

    def __init__(self, make_policy: Callable[[], policies.Policy]) -> None:
        self.make_policy, self.tokenizer = make_policy, ChatTokenizer()
        self.policies: dict[str, tuple[policies.Policy, int]] = {}
        self.images: list[str] = []  # of the last chat

    async def generate(self, batch: Any, model: Any = None) -> dict[str, Any]:
        del model
        replies = []
        for ids, session in zip(batch["prompt_token_ids"], batch["session_ids"], strict=True):
            policy, turn = self.policies.get(session) or (self.make_policy(), 0)
            self.policies[session] = policy, turn + 1
            replies.append(policy(self.tokenizer.chat([each for each in ids if each != IMAGE]), turn + 1))
        await asyncio.sleep(0)
        return {
            "responses": replies,
            "response_ids": [[*self.tokenizer.encode(reply), self.tokenizer.eos_token_id] for reply in replies],
            "stop_reasons": ["stop"] * len(replies),
            "response_logprobs": None,
        }

    async def render_chat_completion(self, payload: Any) -> dict[str, Any]:
        chat = payload["json"]["messages"]
        parts = [part for message in chat if isinstance(message["content"], list) for part in message["content"]]
        self.images = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        return {"token_ids": self.tokenizer.apply_chat_template(chat, add_generation_prompt=True), "features": None}

    async def finish_session(self, session: str) -> None:
        self.policies.pop(session, None)


def generate(
    config: dict[str, Any],
    seeds: Sequence[int],
    make_policy: Callable[[], policies.Policy],
    *,
    has_images: bool = False,
    max_turns: int = MOST_TURNS,
    **settings: Any,
) -> tuple[dict[str, Any], Engine]:
    """Return the output of SkyRL's generator for a batch of rows."""
    NotedEnv.notes.clear()
    engine = Engine(make_policy)
    generator_config = skyrl_config.GeneratorConfig(max_turns=max_turns, max_input_length=10**6, **settings)
    kind = skyrl_vlm_generator.SkyRLVLMGymGenerator if has_images else skyrl_gym_generator.SkyRLGymGenerator
    generator = kind(generator_config, skyrl_config.SkyRLGymConfig(), engine, engine.tokenizer)
    batch = {
        "prompts": [[{"role": "user", "content": "<placeholder>"}] for _ in seeds],
        "env_classes": ["jaxgym"] * len(seeds),
        "env_extras": [{"seed": seed, "env_config": config, "index": index} for index, seed in enumerate(seeds)],
        "sampling_params": None,
        "trajectory_ids": [base.TrajectoryID(str(index), 0) for index, _ in enumerate(seeds)],
    }
    return asyncio.run(generator.generate(batch, disable_tqdm=True)), engine


def noted(index: int) -> tuple[list[str], list[str], list[float]]:
    """Return the observation texts, the replies and the rewards of a trajectory, as SkyRL got them."""
    chat, *steps = NotedEnv.notes[index]
    messages = [chat[1], *(message for _, step in steps for message in step["observations"])]
    texts = [
        part if isinstance(part, str) else part[-1]["text"] for part in (message["content"] for message in messages)
    ]
    return texts, [reply for reply, _ in steps], [step["reward"] for _, step in steps]


@pytest.mark.parametrize("game", GAMES)
def test_the_trainer_gets_the_texts_and_the_rewards_of_the_pool(game: str) -> None:
    config, make_policy = GAMES[game]
    output, _ = generate(config, [*SEEDS, SEEDS[0]], make_policy)
    for index, seed in enumerate([*SEEDS, SEEDS[0]]):
        texts, replies, rewards = noted(index)
        turns = trajectories.turns_of(config, seed, replies)
        assert texts == [text for text, _ in turns[:-1]]  # without that after the end
        assert rewards == [reward for _, reward in turns[1:]]
        assert sum(output["rewards"][index]) == pytest.approx(sum(rewards))
        assert sum(rewards) > 0
    assert NotedEnv.notes[0] == NotedEnv.notes[len(SEEDS)]
    assert output["rollout_metrics"]["environment/is_solved"] == 1


def test_the_rows_of_the_example_are_won() -> None:
    example = [json.loads(line) for line in EXAMPLE.read_text().splitlines()]
    for row in example:
        assert (row["env_class"], row["prompt"]) == ("jaxgym", [{"role": "user", "content": "Play."}])
    config = example[0]["env_config"]
    assert all(row["env_config"] == config for row in example)
    output, _ = generate(config, [row["seed"] for row in example], lambda: policies.frozen_lake)
    assert [sum(rewards) for rewards in output["rewards"]] == [1.0] * len(example)


@pytest.mark.parametrize("settings", [{"use_conversation_multi_turn": False}, {"step_wise_trajectories": True}])
def test_other_modes_of_the_generator_have_the_same_rewards(settings: dict[str, bool]) -> None:
    output, _ = generate(LAKE, SEEDS[:1], lambda: policies.frozen_lake, **settings)
    rewards = [sum(each) for each in output["rewards"]]
    assert sum(rewards) == pytest.approx(sum(noted(0)[2])) == 1


def test_malformed_replies_are_invalid_turns() -> None:
    generate(LAKE, SEEDS[:1], lambda: lambda _, turn: trajectories.MALFORMED[turn % len(trajectories.MALFORMED)])
    texts, replies, rewards = noted(0)
    assert (
        rewards == [-0.25] * LAKE["max_turns"] == [reward for _, reward in trajectories.turns_of(LAKE, 0, replies)[1:]]
    )
    assert len(texts) == LAKE["max_turns"]


def test_the_limit_of_the_generator_ends_a_trajectory() -> None:
    generate({**LAKE, "max_turns": 0}, SEEDS[:1], policies.constant("?"), max_turns=3)
    assert len(noted(0)[1]) == 3
    assert trajectories.open_sessions() == 0


def test_a_thousand_trajectories_leave_no_session() -> None:
    for _ in range(4):
        generate({**LAKE, "max_turns": 2}, range(250), policies.constant("<action>up</action>"))
        assert trajectories.open_sessions() == 0


def test_a_failing_engine_leaves_no_session() -> None:
    def fail(_: Any, turn: int) -> str:
        if turn > 1:
            raise RuntimeError("the engine is down")
        return "?"

    with pytest.raises(RuntimeError, match="the engine is down"):
        generate(LAKE, range(16), lambda: fail)
    NotedEnv.notes.clear()
    end = time.monotonic() + SECONDS_TO_DROP
    while trajectories.open_sessions() and time.monotonic() < end:  # threads still step environments of this batch
        gc.collect()
        rows.close_dropped()
        time.sleep(0.1)
    assert trajectories.open_sessions() == 0


@pytest.mark.parametrize("mode", ["both", "image"])
def test_every_turn_has_one_new_image(mode: str) -> None:
    config = {**LAKE, "observation_mode": mode, "max_turns": 3}
    output, engine = generate(config, SEEDS[:1], policies.constant("<action>right</action>"), has_images=True)
    _, *steps = NotedEnv.notes[0]
    assert len(engine.images) == len(steps)
    for url in engine.images:
        found = re.fullmatch("data:image/png;base64,(.*)", url)
        assert found
        assert Image.open(io.BytesIO(base64.b64decode(found[1]))).size == (252, 252)
    assert sum(output["rewards"][0]) == sum(step["reward"] for _, step in steps)
