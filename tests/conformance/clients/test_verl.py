"""verl's own worker runs our agent loop on the rows of `jaxgym dataset`; skipped where verl is absent.

The worker makes, runs and pads the loops, and writes the rewards that its trainer reads. The servers of the model are
a stand-in.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxgym.serve import episodes
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.trainers.dataset import dataset
from tests.conformance.clients import tiny_chat
from tests.conformance.clients.policies import frozen_lake
from tests.serve.replay import replay

pytest.importorskip("verl")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

GAME, OPTIONS = "frozen_lake", {"size": 4, "max_turns": 12}
TRAJECTORIES, AT_ONCE = 1000, 250
EXAMPLE = Path(__file__).parents[3] / "examples/verl"


@pytest.fixture(scope="module")
def tokens() -> Any:
    return tiny_chat.tokenizer()


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionPool]:
    made = SessionPool(capacity=512)
    monkeypatch.setattr(episodes, "_pools", [made])
    yield made
    assert len(made) == 0


def rows(count: int, options: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in dataset("verl", [GAME], count, options).splitlines()]


def batch_of(data_rows: list[dict[str, Any]]) -> Any:
    """Return the batch of rows that verl's dataset and trainer give to a worker."""
    import torch
    from verl.protocol import DataProto

    columns = {}
    for name in data_rows[0]:
        column = np.empty(len(data_rows), dtype=object)
        column[:] = [row[name] for row in data_rows]
        columns["raw_prompt" if name == "prompt" else name] = column
    columns["index"] = np.arange(len(data_rows))
    return DataProto.from_dict({"dummy": torch.zeros(len(data_rows), 1)}, columns, meta_info={"global_steps": 1})


class Servers:
    """Client of verl's servers, with a scripted model."""

    def __init__(self, model: tiny_chat.Model) -> None:
        self.model = model

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: Any, image_data: Any = None
    ) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        del sampling_params
        _, ids = await self.model.reply(request_id, prompt_ids, image_data or ())
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason="completed")


def worker_of(model: tiny_chat.Model, length: int, processor: Any = None) -> Any:
    """Return a worker without the models and actors of its constructor."""
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop import agent_loop
    from verl.utils.dataset.rl_dataset import RLHFDataset

    import jaxgym.serve.trainers.verl  # noqa: F401 registers the loop, as the file of agent loops does

    rollout = {
        "prompt_length": 4096,
        "response_length": length,
        **{"temperature": 1.0, "top_p": 1.0, "top_k": -1, "calculate_log_probs": True, "full_determinism": False},
        "val_kwargs": {"temperature": 0, "top_p": 1.0, "top_k": -1},
        "agent": {"default_agent_loop": "single_turn_agent", "agent_loop_config_path": None},
        "multi_turn": {"max_assistant_turns": None},
        "trace": {"project_name": None, "experiment_name": None, "backend": None, "token2text": False},
    }
    made = object.__new__(agent_loop.AgentLoopWorker)
    made.config = OmegaConf.create(
        {"actor_rollout_ref": {"rollout": rollout, "model": {}}, "data": {"apply_chat_template_kwargs": {}}}
    )
    made.rollout_config, made.model_config = made.config.actor_rollout_ref.rollout, OmegaConf.create({})
    made.llm_client = made.server_manager = Servers(model)
    made.teacher_client = made.reward_loop_worker_handles = made.teacher_key = None
    made.distillation_enabled = made.stream_teacher_with_rollout = False
    made.tokenizer, made.processor, made.dataset_cls = model.tokens, processor, RLHFDataset
    made.hf_model_type = None if processor is None else "qwen2_5_vl"
    made.tools, made.mm_processor_kwargs = [], {}
    return made


def played(
    tokens: Any,
    data_rows: list[dict[str, Any]],
    policy: Callable[[Any, int], str] = frozen_lake,
    length: int = 8192,
    processor: Any = None,
) -> tuple[Any, tiny_chat.Model]:
    model = tiny_chat.Model(tokens, policy)
    worker = worker_of(model, length, processor)
    return asyncio.run(worker.generate_sequences(batch_of(data_rows))), model


def chat_of(tokens: Any, batch: Any, place: int) -> list[dict[str, Any]]:
    ids, mask = batch.batch["input_ids"][place], batch.batch["attention_mask"][place].bool()
    return tiny_chat.chat_of(tokens, ids[mask].tolist())


def check(tokens: Any, pool: SessionPool, data_rows: list[dict[str, Any]], batch: Any, mark: str = "") -> list[float]:
    """Compare the texts and rewards of trajectories with those of the pool; return the rewards that verl reads."""
    totals = batch.batch["rm_scores"].sum(-1).tolist()
    for place, row in enumerate(data_rows):
        chat = chat_of(tokens, batch, place)
        replies = tiny_chat.replies_of(chat)
        texts, results = replay(pool, row["env_config"], replies)
        seen = [message["content"] for message in chat if message["role"] != "assistant"]
        shown = [texts[0], *(mark + text for text in texts[1:])]
        assert seen == shown[: len(seen)]
        assert len(seen) == len(replies) + 1
        assert totals[place] == pytest.approx(sum(result.reward for result in results))
        assert batch.non_tensor_batch["turn_scores"][place] == [result.reward for result in results]
        trained = batch.batch["responses"][place][batch.batch["response_mask"][place].bool()]
        assert tokens.decode(trained.tolist()) == "".join(reply + tiny_chat.END for reply in replies)
    return totals


def test_a_player_wins_and_the_texts_and_rewards_are_those_of_the_pool(tokens: Any, pool: SessionPool) -> None:
    data_rows = rows(16, OPTIONS)
    batch, model = played(tokens, [row for row in data_rows for _ in range(4)])
    assert check(tokens, pool, [row for row in data_rows for _ in range(4)], batch) == [1.0] * 64
    assert model.peak > 16
    chats = {repr(chat_of(tokens, batch, place)) for place in range(64)}
    assert len(chats) == 16
    assert batch.non_tensor_batch["success"].tolist() == [1.0] * 64
    assert (batch.batch["rollout_log_probs"][batch.batch["response_mask"].bool()] == -0.5).all()


def test_malformed_replies_are_invalid_turns(tokens: Any, pool: SessionPool) -> None:
    data_rows = rows(4, OPTIONS | {"invalid_reply_penalty": 0.125})
    batch, _ = played(tokens, data_rows, tiny_chat.bad_replies)
    assert check(tokens, pool, data_rows, batch) == [-0.125 * 12] * 4
    assert batch.non_tensor_batch["invalid_replies"].tolist() == [12.0] * 4


def test_a_thousand_trajectories_leave_no_session(tokens: Any, pool: SessionPool) -> None:
    for _ in range(TRAJECTORIES // AT_ONCE):
        played(tokens, rows(AT_ONCE, OPTIONS))
        assert len(pool) == 0


def test_a_trajectory_stops_before_a_text_that_does_not_fit(tokens: Any, pool: SessionPool) -> None:
    data_rows = rows(4, OPTIONS)
    batch, _ = played(tokens, data_rows, lambda _chat, _turn: "no action", 700)
    for place, row in enumerate(data_rows):
        chat = chat_of(tokens, batch, place)
        texts, _ = replay(pool, row["env_config"], tiny_chat.replies_of(chat))
        assert 1 < len(tiny_chat.replies_of(chat)) < OPTIONS["max_turns"]
        assert chat[-1] == {"role": "assistant", "content": "no action"}
        assert [message["content"] for message in chat if message["role"] != "assistant"] == texts[: len(chat) // 2 + 1]


def test_a_failing_server_leaves_no_session(tokens: Any, pool: SessionPool) -> None:
    def fail(_: Any, turn: int) -> str:
        if turn > 1:
            raise RuntimeError("the server is down")
        return "no action"

    with pytest.raises(RuntimeError, match="the server is down"):
        played(tokens, rows(8, OPTIONS), fail)
    assert len(pool) == 0


def test_every_turn_brings_one_image_which_reaches_the_training(pool: SessionPool) -> None:
    tokens = tiny_chat.tokenizer()
    processor = tiny_chat.processor(tokens)
    data_rows = rows(4, OPTIONS | {"observation_mode": "both"})
    batch, model = played(tokens, data_rows, processor=processor)
    assert check(tokens, pool, data_rows, batch, "<image>") == [1.0] * 4
    for calls in model.images.values():
        assert [len(images) for images in calls] == list(range(1, len(calls) + 1))
        assert {image.size for image in calls[-1]} == {(252, 252)}
        assert len({image.tobytes() for image in calls[-1]}) == len(calls)
    pads = tokens.convert_tokens_to_ids(tiny_chat.IMAGE)
    for place, inputs in enumerate(batch.non_tensor_batch["multi_modal_inputs"]):
        assert len(inputs["image_grid_thw"]) == len(tiny_chat.replies_of(chat_of(tokens, batch, place)))
        patches = int((inputs["image_grid_thw"].prod(-1) // 4).sum())
        assert int((batch.batch["input_ids"][place] == pads).sum()) == patches


def test_the_dataset_of_verl_reads_the_rows(tokens: Any, tmp_path: Path) -> None:
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset

    file = tmp_path / "train.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows(3, OPTIONS)))
    config = OmegaConf.create({"cache_dir": str(tmp_path), "filter_overlong_prompts": False})
    read = RLHFDataset(str(file), tokens, config)
    assert [read[place]["env_config"] for place in range(3)] == [row["env_config"] for row in rows(3, OPTIONS)]
    assert read[0]["agent_name"] == "jaxgym"


def test_verl_knows_every_flag_of_the_script_and_the_loop_of_the_file(tmp_path: Path) -> None:
    import verl
    from hydra import compose, initialize_config_dir
    from hydra.utils import get_class
    from omegaconf import OmegaConf

    for name in ("jaxgym", "python"):
        stub = tmp_path / name
        stub.write_text('#!/bin/sh\n[ "$1" = dataset ] || for word in "$@"; do printf "%s\\n" "$word"; done\n')
        stub.chmod(0o755)
    script = tmp_path / "grpo.sh"
    script.write_text((EXAMPLE / "grpo.sh").read_text())
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ran = subprocess.run(["bash", script, "a/model"], env=environment, capture_output=True, text=True, check=True)
    module, *overrides = ran.stdout.splitlines()[1:]
    assert module == "verl.trainer.main_ppo"
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer/config"), version_base=None):
        config = compose("ppo_trainer", overrides=overrides)
    assert config.actor_rollout_ref.model.path == "a/model"
    assert config.actor_rollout_ref.rollout.agent.agent_loop_config_path == str(tmp_path / "agent_loop.yaml")
    (loop,) = OmegaConf.load(EXAMPLE / "agent_loop.yaml")
    assert (loop["name"], get_class(loop["_target_"]).__name__) == ("jaxgym", "JaxgymAgentLoop")
