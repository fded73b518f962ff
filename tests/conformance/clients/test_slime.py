"""slime's own rollout code runs our generate function on the rows of `jaxgym dataset`; skipped without a checkout.

    SLIME_SRC=/path/to/slime pytest tests/conformance/clients/test_slime.py

The requests to the engine are a stand-in.
"""

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jaxgym.serve import episodes
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.trainers.dataset import dataset
from tests.conformance.clients import tiny_chat
from tests.conformance.clients.policies import frozen_lake
from tests.serve.replay import replay

SOURCE = os.environ.get("SLIME_SRC", "")
sys.path[:0] = [SOURCE] if SOURCE else []
if not SOURCE:
    pytest.skip("set SLIME_SRC to a checkout of THUDM/slime", allow_module_level=True)
pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

OPTIONS = {"size": 4, "max_turns": 12}
TRAJECTORIES, AT_ONCE, GROUP = 1000, 250, 5


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionPool]:
    made = SessionPool(capacity=512)
    monkeypatch.setattr(episodes, "_pools", [made])
    yield made
    assert len(made) == 0


class Rollout:
    """slime's process of rollouts, with a scripted engine."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from slime.rollout import sglang_rollout
        from slime.utils import http_utils

        self.tokens, self.code = tiny_chat.tokenizer(), sglang_rollout
        self.tokens.save_pretrained(folder)
        self.model = tiny_chat.Model(self.tokens, frozen_lake)
        self.reason = "stop"
        monkeypatch.setattr(http_utils, "post", self.post)
        limits = {"rollout_max_response_len": 20_000, "rollout_max_context_len": None, "rollout_stop": None}
        engine = {"sglang_server_concurrency": 512, "rollout_num_engines": 1, "sglang_dp_size": 1}
        router = {"sglang_router_ip": "127.0.0.1", "sglang_router_port": 1, "use_rollout_routing_replay": False}
        hooks = {"rollout_sample_hook_paths": None, "custom_rollout_sample_hook_path": None, "custom_rm_path": None}
        generation = {"rollout_temperature": 1.0, "rollout_top_p": 1.0, "rollout_top_k": -1, "rollout_seed": 0}
        self.args = argparse.Namespace(
            **{**limits, **engine, **router, **hooks, **generation},
            **{"hf_checkpoint": str(folder), "rollout_stop_token_ids": None, "rollout_skip_special_tokens": False},
            **{
                "partial_rollout": False,
                "mask_offpolicy_in_partial_rollout": False,
                "group_rm": False,
                "rm_type": None,
            },
            **{"n_samples_per_prompt": GROUP, "ci_test": False, "apply_chat_template": True},
            custom_generate_function_path="jaxgym.serve.trainers.slime.generate",
        )

    async def post(self, url: str, payload: dict[str, Any]) -> dict[str, Any]:
        assert url == "http://127.0.0.1:1/generate"
        images = payload.get("image_data", ())
        said, ids = await self.model.reply(id(asyncio.current_task()), payload["input_ids"], images)
        meta_info = {
            "output_token_logprobs": [[-0.5, token, None] for token in ids],
            "finish_reason": {"type": self.reason},
            **{"completion_tokens": len(ids), "prompt_tokens": 1, "weight_version": "0"},
        }
        return {"text": said + tiny_chat.END, "meta_info": meta_info}

    def play(self, count: int, policy: Callable[[Any, int], str] = frozen_lake, **options: Any) -> list[Any]:
        """Return the samples of groups, played as slime's trainer does."""
        from slime.utils.misc import SingletonMeta
        from slime.utils.types import Sample

        self.model.policy = policy
        self.model.images = {}
        rows = [json.loads(line) for line in self.dataset(count // GROUP, **options).splitlines()]
        prompts = [self.tokens.apply_chat_template(row["prompt"], tokenize=False) for row in rows]
        groups = [
            [Sample(prompt=prompt, index=index, metadata=dict(row["metadata"])) for index in range(GROUP)]
            for row, prompt in zip(rows, prompts, strict=True)
        ]
        SingletonMeta._instances.clear()
        state = self.code.GenerateState(self.args)
        state.tokenizer, state.processor = self.tokens, tiny_chat.processor(self.tokens)

        async def run() -> list[Any]:
            state.semaphore = asyncio.Semaphore(512)
            run_group = self.code.generate_and_rm_group
            return await asyncio.gather(
                *(run_group(self.args, group, state.sampling_params.copy()) for group in groups)
            )

        return [sample for group in asyncio.run(run()) for sample in group]

    def dataset(self, count: int, **options: Any) -> str:
        return dataset("slime", ["frozen_lake"], count, {**OPTIONS, **options})

    def check(self, pool: SessionPool, samples: list[Any], mark: str = "") -> list[float]:
        """Compare texts and rewards of samples with those of the pool; return the rewards that slime reads."""
        for sample in samples:
            chat = tiny_chat.chat_of(self.tokens, sample.tokens)
            replies = tiny_chat.replies_of(chat)
            texts, results = replay(pool, sample.metadata["env_config"], replies)
            seen = [message["content"] for message in chat if message["role"] != "assistant"]
            assert seen == [texts[0], *(mark + text for text in texts[1:])][: len(seen)]
            assert sample.tokens == self.rendered(chat, sample.tokens)
            assert len(seen) == len(replies) + 1
            assert sample.reward == pytest.approx(sum(result.reward for result in results))
            assert sample.metadata["turn_rewards"] == [result.reward for result in results]
            response = sample.tokens[-sample.response_length :]
            trained = [token for token, mask in zip(response, sample.loss_mask, strict=True) if mask]
            assert self.tokens.decode(trained) == "".join(reply + tiny_chat.END for reply in replies)
        return [sample.reward for sample in samples]

    def rendered(self, chat: list[dict[str, Any]], tokens: list[int]) -> list[int]:
        """Return the tokens of the whole chat by its template; with images, the given tokens."""
        if any("<image>" in message["content"] for message in chat):
            return tokens
        text = self.tokens.apply_chat_template(chat, tokenize=False).removesuffix("\n")
        return self.tokens.encode(text, add_special_tokens=False)


@pytest.fixture
def rollout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rollout:
    return Rollout(tmp_path, monkeypatch)


def test_a_player_wins_and_the_texts_and_rewards_are_those_of_the_pool(rollout: Rollout, pool: SessionPool) -> None:
    samples = rollout.play(60)
    assert rollout.check(pool, samples) == [1.0] * 60
    assert {sample.status for sample in samples} == {type(samples[0]).Status.COMPLETED}
    assert len({tuple(sample.tokens) for sample in samples}) == 60 // GROUP
    assert rollout.model.peak > GROUP
    assert {log_prob for sample in samples for log_prob in sample.rollout_log_probs} == {-0.5, 0.0}


def test_malformed_replies_are_invalid_turns(rollout: Rollout, pool: SessionPool) -> None:
    samples = rollout.play(GROUP, tiny_chat.bad_replies, invalid_reply_penalty=0.125)
    assert rollout.check(pool, samples) == [-0.125 * 12] * GROUP


def test_a_thousand_trajectories_leave_no_session(rollout: Rollout, pool: SessionPool) -> None:
    for _ in range(TRAJECTORIES // AT_ONCE):
        assert len(rollout.play(AT_ONCE)) == AT_ONCE
        assert len(pool) == 0


@pytest.mark.parametrize("limit", ["rollout_max_response_len", "rollout_max_context_len"])
def test_a_trajectory_stops_before_a_text_that_does_not_fit(rollout: Rollout, pool: SessionPool, limit: str) -> None:
    setattr(rollout.args, limit, 1500)
    samples = rollout.play(GROUP, lambda _chat, _turn: "no action")
    assert rollout.check(pool, samples) == [0.0] * GROUP
    assert {sample.status for sample in samples} == {type(samples[0]).Status.TRUNCATED}
    assert all(0 < len(sample.metadata["turn_rewards"]) < OPTIONS["max_turns"] for sample in samples)


def test_an_abort_ends_the_sample_and_leaves_no_session(rollout: Rollout) -> None:
    rollout.reason = "abort"
    samples = rollout.play(GROUP)
    assert {sample.status for sample in samples} == {type(samples[0]).Status.ABORTED}
    assert [sample.reward for sample in samples] == [0.0] * GROUP


def test_a_failing_engine_leaves_no_session(rollout: Rollout, pool: SessionPool) -> None:
    def fail(_: Any, turn: int) -> str:
        if turn > 1:
            raise RuntimeError("the engine is down")
        return "no action"

    with pytest.raises(RuntimeError, match="the engine is down"):
        rollout.play(GROUP, fail)
    assert len(pool) == 0


def test_every_turn_brings_one_image_which_reaches_the_training(rollout: Rollout, pool: SessionPool) -> None:
    samples = rollout.play(GROUP * 2, observation_mode="both")
    assert rollout.check(pool, samples, "<image>") == [1.0] * GROUP * 2
    for calls in rollout.model.images.values():
        assert [len(images) for images in calls] == list(range(1, len(calls) + 1))
        assert all(image.startswith("data:image/png;base64,") for image in calls[-1])
    pads = rollout.tokens.convert_tokens_to_ids(tiny_chat.IMAGE)
    for sample in samples:
        grid = sample.multimodal_train_inputs["image_grid_thw"]
        assert len(grid) == len(sample.metadata["turn_rewards"])
        assert sample.tokens.count(pads) == int((grid.prod(-1) // 4).sum())
        assert len(sample.multimodal_train_inputs["pixel_values"]) == int(grid.prod(-1).sum())


def test_slime_knows_every_flag_of_the_script() -> None:
    script = Path(__file__).parents[3] / "examples/slime/grpo.sh"
    known = [Path(SOURCE) / "slime/utils/arguments.py", *(Path(SOURCE) / "scripts").glob("run-*.sh")]
    documented = set(re.findall(r"--[a-z][a-z0-9-]+", "".join(path.read_text() for path in known)))
    assert set(re.findall(r"--[a-z][a-z0-9-]+", script.read_text().partition("train.py")[2])) <= documented
