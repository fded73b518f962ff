"""Short histories of our schedulers in ms-swift's server mode, an output for each turn; skipped without."""

import asyncio
import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from jaxgym.errors import OptionError
from jaxgym.serve import swift as ours
from jaxgym.serve.messages import OMITTED
from jaxgym.serve.openenv import client
from jaxgym.serve.swift import images
from tests.conformance import run
from tests.conformance.clients import policies, trajectories

pytest.importorskip("swift")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

LAKE = {"name": "frozen_lake", "map_name": "4x4", "size": 4, "max_turns": 20, "observation_mode": "both"}
SEEDS = (0, 1)


class Seeing:
    """The policy of the game, which keeps the messages and images that the engine gets."""

    def __init__(self, engine: Any) -> None:
        self.seen: list[tuple[list[dict[str, Any]], list[str]]] = []
        answer = engine.answer
        engine.answer = lambda request: self.note(request) or answer(request)

    def note(self, request: Any) -> None:
        self.seen.append(([dict(message) for message in request.messages], list(request.images)))


def play(config: dict[str, Any], seeds: Any, max_turns: int = 30, **history: Any) -> tuple[list[list[Any]], Seeing]:
    """Return the outputs of each trajectory, and what the engine got in the last one."""
    stand_ins = importlib.import_module("tests.conformance.clients.stand_ins")
    table = importlib.import_module("swift.rollout.multi_turn").multi_turns
    ours.register()
    images.register("short", **history)
    outputs, seen = [], None
    for seed in seeds:
        engine = stand_ins.Engine(lambda: policies.frozen_lake)
        seen = Seeing(engine)
        scheduler = table["short"](engine, max_turns)
        outputs.append(
            asyncio.run(scheduler.async_infer([stand_ins.request_of({**config, "seed": seed})], stand_ins.ONCE))
        )
    assert seen is not None
    return outputs, seen


@pytest.mark.parametrize("mode", ["text", "both"])
def test_every_turn_is_a_sample_with_the_chat_that_the_model_saw(mode: str) -> None:
    config = {**LAKE, "observation_mode": mode}
    played, seen = play(config, SEEDS, history_turns=2, history_images=1)
    for seed, outputs in zip(SEEDS, played, strict=True):
        replies = [output.messages[-1]["content"] for output in outputs]
        turns = trajectories.turns_of(config, seed, replies)
        assert outputs[-1].rollout_infos["step_rewards"] == [reward for _, reward in turns[1:]]
        assert {output.rollout_infos["total_reward"] for output in outputs} == {1.0}
        assert {output.rollout_infos["num_turns"] for output in outputs} == {len(replies)}
        for turn, output in enumerate(outputs):
            system, *chat = output.messages
            texts = [text for text, _ in turns]
            shown = sorted({0, *range(max(0, turn - 1), turn + 1)})
            wanted = [texts[place] for place in shown]
            if mode == "both":
                wanted = [f"{OMITTED}\n{text}" for text in wanted[:-1]] + [f"<image>{wanted[-1]}"]
            assert system["role"] == "system"
            assert [message["content"] for message in chat[::2]] == wanted
            assert [message["content"] for message in chat[1::2]] == [replies[place] for place in shown]
            assert len(output.rollout_infos.get("images", [])) == (mode == "both")
            # Only the last reply of a sample has a loss.
            assert output.response_token_ids == [[ord(letter) for letter in replies[place]] for place in shown]
            masks = [len(replies[place]) * [int(place == turn)] for place in shown]
            assert output.response_loss_mask == masks
            output.model_dump_json()
    for output, (messages, pictures) in zip(played[-1], seen.seen, strict=True):
        assert messages == output.messages[:-1]
        assert pictures == output.rollout_infos.get("images", [])
    assert trajectories.open_sessions() == 0


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    options = [f"{name}={value}" for name, value in LAKE.items() if name != "name"]
    with run.served(("openenv", "--env", "frozen_lake", *options)) as url:
        yield url


def test_on_an_openenv_server_every_turn_is_a_sample_with_the_chat_that_the_model_saw(url: str) -> None:
    stand_ins = importlib.import_module("tests.conformance.clients.stand_ins")
    client.register("short_openenv", history_turns=2, history_images=1)
    engine = stand_ins.Engine(lambda: policies.frozen_lake)
    seen = Seeing(engine)
    scheduler = importlib.import_module("swift.rollout.multi_turn").multi_turns["short_openenv"](engine, 30)
    scheduler.env_config_defaults = {}
    request = stand_ins.request_of({"name": "openenv", "base_url": url, "reset_kwargs": {"seed": 3}})
    outputs = asyncio.run(scheduler.async_infer([request], stand_ins.ONCE))
    replies = [output.messages[-1]["content"] for output in outputs]
    texts = [text for text, _ in trajectories.turns_of(LAKE, 3, replies)]
    assert {(output.rollout_infos["total_reward"], output.rollout_infos["num_turns"]) for output in outputs} == {
        (1.0, len(replies))
    }
    for turn, (output, (messages, pictures)) in enumerate(zip(outputs, seen.seen, strict=True)):
        shown = sorted({0, *range(max(0, turn - 1), turn + 1)})
        wanted = [f"{OMITTED}\n{texts[place]}" for place in shown[:-1]] + [f"<image>{texts[turn]}"]
        assert [message["content"] for message in output.messages if message["role"] == "user"] == wanted
        assert messages == output.messages[:-1]
        assert pictures == output.rollout_infos["images"]
        assert len(pictures) == 1
    assert len({seen.seen[turn][1][0] for turn in range(len(outputs))}) == len(outputs)


def test_without_a_history_there_is_one_output_with_all_images() -> None:
    ((output,),), seen = play(LAKE, SEEDS[:1])
    assert len(output.rollout_infos["images"]) == len(seen.seen) == output.rollout_infos["num_turns"]


def test_a_truncated_trajectory_is_closed() -> None:
    (outputs,), _ = play(LAKE, SEEDS[:1], max_turns=2, history_turns=1)
    assert len(outputs) == 2
    assert trajectories.open_sessions() == 0


def test_colocate_mode_is_an_error() -> None:
    stand_ins = importlib.import_module("tests.conformance.clients.stand_ins")
    images.register("short", history_images=1)
    scheduler = importlib.import_module("swift.rollout.multi_turn").multi_turns["short"](None, 3)
    with pytest.raises(OptionError, match="Use server mode"):
        asyncio.run(scheduler.on_trajectory_start([stand_ins.request_of({**LAKE, "seed": 0})]))
