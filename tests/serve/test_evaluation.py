"""Evaluations: scripted agents with a known memory get the span, the area and the curve that they must get."""

import asyncio
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import jaxgym
from benchmarks import memory_span as benchmark
from jaxgym import cli, levels
from jaxgym.errors import OptionError
from jaxgym.serve import evaluation
from jaxgym.serve import rollout as rollouts
from jaxgym.serve.evaluation import report
from jaxgym.serve.pool import SessionPool
from tests.serve import chat_server
from tests.text import players

HELD_OUT = 2**31
LAKE = {"tasks": ("frozen_lake",), "numbers": (1,), "episodes": 3}


@pytest.fixture(scope="module")
def pool() -> Iterator[SessionPool]:
    made = SessionPool(capacity=16)
    yield made
    assert len(made) == 0, "an evaluation left a session open"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with benchmark.serving() as url:
        yield url


class Down:
    """Agent that always goes down, and counts its episodes."""

    episodes = 0

    def __init__(self, word: str = "down"):
        type(self).episodes += 1
        self.word = word

    def reply(self, messages: list[dict[str, Any]]) -> str:
        assert messages[0]["role"] == "system"
        return f"<action>{self.word}</action>"


def python(make: Any = Down) -> evaluation.Agent:
    return evaluation.Agent(max_tokens=16, python="tests:Down", make=make)


# The measures.


def test_the_ends_of_an_interval_are_the_probabilities_at_the_limit_of_the_score_test() -> None:
    for successes, trials in ((0, 1), (1, 3), (9, 10), (20, 20), (37, 100)):
        share = successes / trials
        low, high = evaluation.wilson(successes, trials)
        assert 0 <= low <= share <= high <= 1
        for end in (low, high):
            if 0 < end < 1:
                assert abs(share - end) == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / trials), rel=1e-5)
    assert evaluation.wilson(0, 0) == (0, 1)


@pytest.mark.parametrize(
    ("successes", "span", "area"),
    [
        ([1.0, 1.0, 1.0, 1.0], 4, 4.0),
        ([1.0, 0.5, 0.0, 0.0], 2, 1.5),
        ([0.4, 1.0, 1.0, 1.0], 0, 3.4),
        ([1.0, 0.49, 0.9, 0.9], 1, 3.29),
        ([0.0, 0.0, 0.0, 0.0], 0, 0.0),
    ],
)
def test_the_span_ends_before_the_first_failed_difficulty(successes: list[float], span: int, area: float) -> None:
    curve = list(enumerate(successes, start=1))
    assert evaluation.memory_span(curve) == span
    assert evaluation.area(curve) == pytest.approx(area)


def test_a_success_counts_for_all_numbers_since_the_last_one() -> None:
    assert evaluation.area([(7, 1.0), (9, 0.5)]) == 8.0
    assert evaluation.memory_span([(1, 1.0), (2, math.nan), (3, 1.0)]) == 1


def test_a_failed_last_command_is_no_success() -> None:
    (difficulty,) = (each for each in evaluation.TASKS["mortar_mayhem"].difficulties if each.number == 3)
    assert not difficulty.is_success({"total_reward": 0.2, "is_solved": True})
    assert difficulty.is_success({"total_reward": float(np.float32(0.1)) * 3, "is_solved": True})


# The suite.


def test_difficulties_rise_and_their_levels_are_held_out_and_different() -> None:
    for name, task in evaluation.TASKS.items():
        numbers = [difficulty.number for difficulty in task.difficulties]
        assert numbers == sorted(set(numbers)), name
        assert len({difficulty.label for difficulty in task.difficulties}) == len(numbers)
    names = [name for name in evaluation.TASKS if name != "mystery_path"]
    configs = [row["env_config"] for row in evaluation.rows_for(names, 3)]
    assert all(config["seed"] >= HELD_OUT for config in configs)
    games = {(config["name"], config["seed"]) for config in configs}
    assert len(games) == len(configs)
    assert {config["command_count"][0] for config in configs if "command_count" in config} == set(range(1, 21))


def test_fewer_episodes_play_the_first_levels_of_more() -> None:
    few, many = (evaluation.rows_for(["mortar_mayhem"], episodes, numbers=(2, 7)) for episodes in (2, 5))
    assert few == [row for row in many if row["env_config"]["seed"] % 1024 < 2]
    assert [row["env_config"]["seed"] - HELD_OUT for row in few] == [2048, 2049, 7168, 7169]


@pytest.mark.slow
def test_the_paths_of_a_difficulty_have_its_number_of_tiles() -> None:
    rows = evaluation.rows_for(["mystery_path"], 3)
    assert rows == [row for row in evaluation.rows_for(["mystery_path"], 5) if row in rows]
    env, params = jaxgym.make("MysteryPath-Grid-v0", levels="fresh")
    assert {row["difficulty"] for row in rows} == set(range(7, 14))
    for row in rows:
        level = levels.level_from_seed(env, np.uint32(row["env_config"]["seed"]), params)
        tiles = "".join(f"{word:032b}" for word in np.asarray(level.path).tolist()).count("1")
        assert (row["env_config"]["seed"] >= HELD_OUT, tiles) == (True, row["difficulty"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"tasks": ["frozen_lakes"]}, "got 'frozen_lakes' .did you mean 'frozen_lake'"),
        ({"tasks": []}, "expected at least one task, got none"),
        ({"tasks": ["sudoku"], "episodes": 0}, "episodes: expected an integer from 1 to 1024, got 0"),
        ({"tasks": ["sudoku"], "numbers": [6]}, "sudoku: expected a difficulty from 1 to 5, got 6"),
    ],
)
def test_rows_that_do_not_exist_are_rejected(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        evaluation.rows_for(**{"episodes": 1, **arguments})


# Agents with a known memory, behind an endpoint.


@pytest.mark.parametrize("mode", ["text", "image"])
def test_an_agent_that_remembers_two_commands_has_the_span_two(mode: str, url: str, pool: SessionPool) -> None:
    task = benchmark.measure(url, 2, mode, 2, pool, numbers=(1, 2, 3, 10))
    assert (task["memory_span"], task["errors"], task["invalid_reply_rate"]) == (2, 0, 0)
    assert task["area"] == 2.0
    assert [point["successes"] for point in task["difficulties"]] == [2, 2, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["text", "image"])
@pytest.mark.parametrize("items", range(1, 21))
def test_an_agent_that_remembers_k_commands_has_the_span_k(items: int, mode: str, url: str, pool: SessionPool) -> None:
    numbers = range(1, min(items + 1, 20) + 1)  # it fails all larger ones like the first
    task = benchmark.measure(url, items, mode, 1, pool, numbers)
    assert (task["memory_span"], task["area"], task["errors"]) == (items, items, 0)


@pytest.mark.slow
@pytest.mark.parametrize("forget", [0.05, 0.2])
def test_an_agent_that_forgets_has_the_curve_of_the_theory(forget: float, tmp_path: Path, pool: SessionPool) -> None:
    settings = evaluation.EvaluationSettings(episodes=100, numbers=tuple(range(1, 11)))
    agent = python(lambda: evaluation.Recall(10, forget))
    points = evaluation.evaluate(agent, settings, tmp_path, pool)["tasks"]["mortar_mayhem"]["difficulties"]
    theory = [(1 - forget) ** point["number"] for point in points]
    inside = [
        point["success_low"] <= probability <= point["success_high"]
        for point, probability in zip(points, theory, strict=True)
    ]
    assert sum(inside) >= 8, "each interval of 95 % covers the theory; fewer than 8 of 10 has a probability of 1 %"
    # The sum over all difficulties has a narrower interval.
    successes, expected = sum(point["successes"] for point in points), 100 * sum(theory)
    spread = math.sqrt(sum(100 * probability * (1 - probability) for probability in theory))
    assert abs(successes - expected) < 2.58 * spread


def test_a_scripted_agent_rejects_a_memory_that_does_not_exist() -> None:
    for items, forget in ((-1, 0.0), (1, 1.5), ("five", 0.0), (1, "half")):
        with pytest.raises(OptionError, match="expected an integer items >= 0 and forget from 0 to 1"):
            evaluation.Recall(cast("Any", items), cast("Any", forget))
    with pytest.raises(ValueError, match="expected the prompt of Mortar Mayhem"):
        evaluation.Recall(1).reply([{"role": "system", "content": "Go!"}])


# Agents.


def test_every_episode_has_an_agent_of_its_own(tmp_path: Path, pool: SessionPool) -> None:
    Down.episodes = 0
    card = evaluation.evaluate(python(), evaluation.EvaluationSettings(**LAKE), tmp_path, pool)
    assert Down.episodes == 3
    assert card["agent"]["python"] == "tests:Down"
    assert card["text_versions"] == {"FrozenLake-v0": jaxgym.text.make("frozen_lake")[2].text_version}
    assert (card["suite_version"], card["package_version"]) == (evaluation.SUITE_VERSION, jaxgym.__version__)


def test_an_agent_that_returns_no_text_is_told(tmp_path: Path, pool: SessionPool) -> None:
    agent = python(lambda: SimpleNamespace(reply=lambda messages: {"action": len(messages)}))
    settings = evaluation.EvaluationSettings(**LAKE, rollout=rollouts.RolloutSettings(retries=0))
    card = evaluation.evaluate(agent, settings, tmp_path, pool)
    assert list(card["errors"]) == ["expected a string or a Choice from the function, got {'action': 2}."]


def test_a_policy_plays_all_episodes(tmp_path: Path, pool: SessionPool) -> None:
    agent = python(lambda: rollouts.BatchPolicy(lambda chats: ["jump"] * len(chats)))
    settings = evaluation.EvaluationSettings(**LAKE, rollout=rollouts.RolloutSettings(max_turns=4, concurrency=16))
    task = evaluation.evaluate(agent, settings, tmp_path, pool)["tasks"]["frozen_lake"]
    assert (task["turns"], task["invalid_reply_rate"], task["successes"]) == (4, 1, 0)


def test_an_endpoint_gets_the_sampling_options_and_the_card_has_model_tokens_and_cost(
    tmp_path: Path, pool: SessionPool
) -> None:
    bodies = list[dict[str, Any]]()

    def answer(body: dict[str, Any]) -> Any:
        bodies.append(body)
        usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
        return chat_server.completion("<action>down</action>", usage=usage)

    settings = evaluation.EvaluationSettings(
        **LAKE, prices=(2.0, 30.0), rollout=rollouts.RolloutSettings(max_turns=2, concurrency=2)
    )
    with chat_server.serving(answer) as url:
        agent = evaluation.Agent(url, temperature=0.5, max_tokens=16, top_p=0.9, sampling_seed=7)
        card = evaluation.evaluate(agent, settings, tmp_path, pool)
    sent = [{name: body[name] for name in ("temperature", "max_tokens", "top_p", "seed")} for body in bodies]
    assert sent == [{"temperature": 0.5, "max_tokens": 16, "top_p": 0.9, "seed": 7}] * len(bodies)
    task = card["tasks"]["frozen_lake"]
    assert card["models"] == ["tiny"]
    assert (task["prompt_tokens"], task["completion_tokens"]) == (1000 * len(bodies), 10 * len(bodies))
    assert task["cost"] == pytest.approx(len(bodies) * (1000 * 2.0 + 10 * 30.0) / 1e6)
    assert card["agent"]["top_p"] == 0.9
    written = (tmp_path / "report.md").read_text()
    assert written.startswith("# Evaluation of tiny\n")
    assert "| frozen_lake | 0 of 1 | " in written


def test_an_evaluation_continues_and_plays_failed_episodes_again(tmp_path: Path, pool: SessionPool) -> None:
    quick = rollouts.RolloutSettings(max_turns=2, retries=1, backoff_seconds=0.0, concurrency=1)
    settings = evaluation.EvaluationSettings(**LAKE, rollout=quick)
    asked = list[str]()

    def play(replies: Any) -> Any:
        asked.clear()
        agent = python(lambda: rollouts.BatchPolicy(lambda chats: [asked.append("") or replies() for _ in chats]))
        return evaluation.evaluate(agent, settings, tmp_path, pool)

    left = ["left", "left"]
    card = play(left.pop)  # two turns of the first episode, then errors
    assert (card["tasks"]["frozen_lake"]["errors"], sum(card["errors"].values())) == (2, 2)
    chats = tmp_path / "completions.jsonl"
    chats.write_text(f'{chats.read_text()}{{"index": 1, "err')  # as after kill -9
    before = chats.read_text().splitlines()[0]
    card = play(lambda: "left")
    assert (card["tasks"]["frozen_lake"]["errors"], card["errors"], len(asked)) == (0, {}, 4)
    assert chats.read_text().splitlines()[0] == before
    assert (play(lambda: "never asked"), asked) == (card, [])
    other = rollouts.RolloutSettings(max_turns=2, history_turns=1)
    settings = evaluation.EvaluationSettings(**LAKE, rollout=other)
    with pytest.raises(OptionError, match="as in the run of this folder"):
        play(lambda: "never asked")


@pytest.mark.slow
def test_a_killed_command_continues(tmp_path: Path) -> None:
    (tmp_path / "slow_agent.py").write_text(
        "import pathlib, time\n"
        "class Slow:\n"
        "    def __init__(self):\n"
        "        with open('episodes', 'a') as file:\n"
        "            file.write('x')\n"
        "    def reply(self, messages):\n"
        "        time.sleep(0.05)\n"
        "        return 'up'\n"
    )
    out = tmp_path / "out"
    command = [sys.executable, "-m", "jaxgym", "eval", "frozen_lake", "--agent", "slow_agent:Slow", "--out", str(out)]
    command += ["--difficulties", "1", "--episodes", "12", "--concurrency", "2", "--max-turns", "5"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment)
    chats = out / "completions.jsonl"
    while not chats.exists() or len(chats.read_text().splitlines()) < 4:
        assert process.poll() is None, "it ended too early"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    first = [line for line in chats.read_text().splitlines() if line.endswith("}")]
    assert 4 <= len(first) < 12
    played = len((tmp_path / "episodes").read_text())
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    lines = chats.read_text().splitlines()
    assert lines[: len(first)] == first
    assert sorted(json.loads(line)["index"] for line in lines) == list(range(12))
    assert len((tmp_path / "episodes").read_text()) - played == 12 - len(first)
    assert json.loads((out / "card.json").read_text())["tasks"]["frozen_lake"]["episodes"] == 12


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in evaluation.TASKS if name != "mortar_mayhem"])  # see `Recall`
def test_the_expert_solves_every_difficulty(name: str, tmp_path: Path) -> None:
    settings = evaluation.EvaluationSettings(tasks=(name,), episodes=4)
    task = evaluation.evaluate(evaluation.Agent("expert"), settings, tmp_path)["tasks"][name]
    expected = 3 if name == "searing_spotlights" else 4  # its expert solves nine levels of ten
    assert min(point["successes"] for point in task["difficulties"]) >= expected


class Walker:
    """Agent that remembers the path and the falls; it does not know the path."""

    player: players.MysteryPath | None = None

    def reply(self, messages: list[dict[str, Any]]) -> str:
        self.player = self.player or players.MysteryPath(messages[0]["content"])
        return self.player.reply(messages[-1]["content"])


@pytest.mark.slow
def test_an_agent_that_remembers_every_fall_finds_the_longest_paths(tmp_path: Path) -> None:
    settings = evaluation.EvaluationSettings(tasks=("mystery_path",), episodes=8)
    task = evaluation.evaluate(python(Walker), settings, tmp_path)["tasks"]["mystery_path"]
    assert (task["memory_span"], task["largest"]) == (13, 13)
    assert task["area"] > 12.5, "the time limit leaves enough steps"


# The context guard.


def chat_of(turns: int, *, with_images: bool = False) -> list[dict[str, Any]]:
    """Return a chat with a system prompt and turns of one word each; the last turn has no reply yet."""
    chat: list[dict[str, Any]] = [{"role": "system", "content": "rules"}]
    for turn in range(turns):
        text: Any = f"word{turn}"
        if with_images:
            image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
            text = [image, {"type": "text", "text": text}]
        chat += [{"role": "user", "content": text}, {"role": "assistant", "content": "ok"}]
    return chat[:-1]


def guard_of(tokens: int | None) -> evaluation.ContextGuard:
    return evaluation.ContextGuard(rollouts.Policy(), tokens, 5, len)  # a message is a token, a reply five


def test_a_chat_that_fits_is_not_shortened() -> None:
    chat = chat_of(4)
    assert len(chat) == 8
    for tokens in (None, 13, 100):
        assert guard_of(tokens).fitting(chat) is chat


def test_the_oldest_turns_after_the_first_are_dropped() -> None:
    chat = chat_of(4)
    assert guard_of(12).fitting(chat) == guard_of(11).fitting(chat) == [*chat[:3], *chat[5:]]
    assert guard_of(10).fitting(chat) == guard_of(9).fitting(chat) == [*chat[:3], chat[-1]]
    with pytest.raises(rollouts.PolicyError, match=r"expected a context of at least 9 tokens .*, got 8") as failure:
        guard_of(8).fitting(chat)
    assert failure.value.is_final


def test_the_card_counts_shortened_requests(tmp_path: Path, pool: SessionPool) -> None:
    seen = list[int]()

    def reply(chats: list[list[dict[str, Any]]]) -> list[str]:
        seen.extend(sum(message["role"] == "user" for message in chat) for chat in chats)
        return ["jump"] * len(chats)

    settings = evaluation.EvaluationSettings(
        **{**LAKE, "episodes": 1}, context_tokens=900, rollout=rollouts.RolloutSettings(max_turns=40, concurrency=1)
    )
    agent = python(lambda: rollouts.BatchPolicy(reply))
    task = evaluation.evaluate(agent, settings, tmp_path, pool)["tasks"]["frozen_lake"]
    longest = max(seen)
    assert 2 < longest < 40, "the context is full before the episode ends"
    assert seen[longest:] == [longest] * (40 - longest)
    assert task["shortened_rate"] == (40 - longest) / 40
    (record,) = map(json.loads, (tmp_path / "completions.jsonl").read_text().splitlines())
    assert len(record["messages"]) == 1 + 2 * 40, "the record has the whole chat"
    for chat in (record["messages"][: 2 * longest], record["messages"][: 2 * longest + 2]):
        assert (evaluation.estimated_tokens(chat, 0) + 16 <= 900) == (len(chat) == 2 * longest)


def test_text_images_and_messages_are_tokens() -> None:
    assert evaluation.estimated_tokens(chat_of(1), 256) == (2 + 4) + (2 + 4)
    assert evaluation.estimated_tokens(chat_of(1, with_images=True), 256) == (2 + 4) + (2 + 4) + 256
    assert evaluation.estimated_tokens([{"role": "user", "content": "é" * 3}], 0) == 2 + 4, "bytes, not characters"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"context_tokens": 0}, "context_tokens: expected an integer of at least 1, got 0"),
        ({"image_tokens": -1}, "image_tokens: expected an integer of at least 0, got -1"),
        ({"prices": (1.0, math.nan)}, "prices: expected two numbers of at least 0"),
    ],
)
def test_settings_out_of_range_are_rejected(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        evaluation.EvaluationSettings(**settings)


# Local models, with stand-ins for torch and transformers.


class Words(dict[str, Any]):
    """Tokenizer whose tokens are words, and its batches."""

    chat_template, pad_token, eos_token, eos_token_id = None, None, "end", 0

    def __call__(self, texts: Any, **_: Any) -> "Words":
        if isinstance(texts, str):
            return Words(input_ids=texts.split())
        return Words(input_ids=np.ones((len(texts), 3), int), attention_mask=np.ones((len(texts), 3), int))

    def to(self, device: str) -> "Words":
        assert device == "cpu"
        return self

    def batch_decode(self, tokens: np.ndarray, **_: Any) -> list[str]:
        return ["hello"] * len(tokens)

    pad_token_id = 0
    generation_config = SimpleNamespace(eos_token_id=0)

    def eval(self) -> None: ...

    def generate(self, input_ids: np.ndarray, **options: Any) -> np.ndarray:
        self["options"] = options
        return np.pad(input_ids, ((0, 0), (0, 2)))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Words:
    made, seeds = Words(), list[int]()
    loader = SimpleNamespace(from_pretrained=lambda *_, **__: made)
    parts = {"AutoTokenizer": loader, "AutoModelForCausalLM": loader}
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(**parts))
    cuda = SimpleNamespace(is_available=lambda: False)
    torch = SimpleNamespace(cuda=cuda, no_grad=contextlib.nullcontext, manual_seed=seeds.append)
    monkeypatch.setitem(sys.modules, "torch", torch)
    made["seeds"] = seeds
    return made


def test_a_local_model_gets_the_sampling_options(tmp_path: Path, model: Words) -> None:
    (tmp_path / "config.json").write_text("{}")
    agent = evaluation.Agent(folder=tmp_path, temperature=0.7, top_p=0.9, sampling_seed=3, max_tokens=8)
    policy = agent.policy(rollouts.RolloutSettings(), 0)
    choice = asyncio.run(policy.reply(rollouts.Request("a", chat_of(1), {})))
    assert (choice.message.content, choice.finish_reason, choice.prompt_tokens) == ("hello", "stop", 3)
    options = model["options"]
    assert {name: options.get(name) for name in ("do_sample", "temperature", "top_p", "max_new_tokens")} == {
        "do_sample": True,
        "temperature": 0.7,
        "top_p": 0.9,
        "max_new_tokens": 8,
    }
    assert model["seeds"] == [3]


def test_a_tokenizer_counts_the_words_of_its_template_and_the_images(tmp_path: Path, model: Words) -> None:
    count = evaluation.tokenizer_tokens(tmp_path, 256)
    assert count(chat_of(1)) == len(["system:", "rules", "user:", "word0", "assistant:"])
    assert count(chat_of(2, with_images=True)) == 2 * 256 + 9
    model.chat_template = "given"
    model.apply_chat_template = lambda chat, **_: " ".join(message["content"] for message in chat)
    assert count(chat_of(1)) == 2


@pytest.mark.usefixtures("model")
def test_a_folder_that_is_no_model_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise KeyError("weights")

    (tmp_path / "config.json").write_text("{}")
    for name in ("AutoModelForCausalLM", "AutoTokenizer"):
        monkeypatch.setattr(sys.modules["transformers"], name, SimpleNamespace(from_pretrained=fail))
        with pytest.raises(
            OptionError, match=r"expected a folder written by save_pretrained .*, got KeyError: 'weights'"
        ):
            evaluation.Agent(folder=tmp_path).policy(rollouts.RolloutSettings(), 0)
    with pytest.raises(OptionError, match="got KeyError: 'weights'"):
        evaluation.tokenizer_tokens(tmp_path, 256)


# The command.


def test_the_command_writes_card_report_and_plot(tmp_path: Path) -> None:
    out = tmp_path / "out"
    argv = ["eval", "frozen_lake", "--difficulties", "1", "--episodes", "2", "--out", str(out)]
    argv += ["--agent", f"{__name__}:Down", "word=up", "--max-turns", "3"]
    printed = cli.run(argv)
    header, _, cells, *files = (line for line in printed.splitlines() if line)
    assert header.split()[:3] == ["task", "memory", "span"]
    assert cells.split()[0] == "frozen_lake"
    assert files == [f"{out}/report.md", f"{out}/success.png"]
    assert (out / "success.png").read_bytes().startswith(b"\x89PNG")
    card = json.loads((out / "card.json").read_text())
    assert card["agent"]["python"] == f"{__name__}:Down word=up"
    assert [point["label"] for point in card["tasks"]["frozen_lake"]["difficulties"]] == ["4 x 4 cells"]
    assert report.markdown_of(card) == (out / "report.md").read_text()
    assert cli.run(argv) == printed


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "expected one of --model, --hf and --agent, got none"),
        (["--model", "expert", "--hf", "folder"], "expected one of --model, --hf and --agent, got --model and --hf"),
        (["--model", "gpt"], "a URL with http://"),
        (["--agent", "no_such_module:Agent"], "expected a module that can be imported"),
        (["--agent", "Agent"], "--agent: expected a class module:Class, got 'Agent'"),
        (["--agent", f"{__name__}:Up"], "--agent: expected a class module:Class"),
        (["--agent", f"{__name__}:Down", "wrd=up"], f"--agent: expected arguments of {__name__}:Down(word"),
        (["--agent", f"{__name__}:Down", "wrd=up"], "got an unexpected keyword argument 'wrd'"),
        (["--model", "expert", "--temperature", "-1"], "--temperature: expected a number of at least 0, got -1.0"),
        (["--model", "expert", "--temperature", "nan"], "--temperature: expected a number of at least 0, got nan"),
        (["--model", "expert", "--max-tokens", "0"], "--max-tokens: expected an integer of at least 1, got 0"),
        (["--model", "expert", "--top-p", "2"], "--top-p: expected a number above 0 and at most 1, got 2.0"),
        (
            ["--model", "expert", "--context-tokens", "512"],
            "--context-tokens: expected more than --max-tokens (512), got 512",
        ),
        (["--hf", "folder", "--observation", "image"], "--hf: expected --observation text, got image"),
        (["--model", "expert", "--episodes", "0"], "episodes: expected an integer from 1 to 1024, got 0"),
    ],
)
def test_a_mistake_is_told_in_one_line_and_writes_nothing(
    argv: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["jaxgym", "eval", "frozen_lake", *argv, "--out", str(out)])
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    error = capsys.readouterr().err
    assert exit_info.value.code == cli.MISUSED
    assert says in error
    assert error.count("\n") == 1
    assert not out.exists()


def test_the_command_tells_of_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["eval", "frozen_lake", "--difficulties", "1", "--episodes", "2", "--out", str(tmp_path)]
    with (
        chat_server.serving(lambda _: 404) as url,
        pytest.raises(cli.FailureError, match=r"^episodes with an error: 2\. .* got status 404"),
    ):
        cli.run([*argv, "--model", url])
    cells = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("frozen_lake"))
    assert cells.split()[:6] == ["frozen_lake", "0", "of", "1", "-", "2"]
