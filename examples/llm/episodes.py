"""Games, levels, demonstrations and batched episodes of the example."""

import argparse
import dataclasses
import json
import math
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before the first import of JAX; the GPU is for the model

import numpy as np
import torch
from trl.chat_template_utils import parse_response

from jaxgym import demos, levels, text
from jaxgym.serve import trl
from jaxgym.serve.evaluation import wilson

MAX_NEW_TOKENS = 24
"""Token limit of a reply, which is one tool call."""


def model_folder(text: str) -> Path:
    """Return the path of a model's folder, for argparse."""
    path = Path(text)
    if not (path / "config.json").is_file():
        raise argparse.ArgumentTypeError(
            f"expected a folder with a config.json, got {text}. Write it with prepare.py, sft.py or grpo.py."
        )
    return path


def positive(text: str) -> int:
    """Return an integer of at least 1, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, got {text}")
    return int(text)


def positive_number(text: str) -> float:
    """Return a finite number above 0, for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text}")
    return number


@dataclasses.dataclass(frozen=True)
class Game:
    """Game with its options.

    Attributes:
        name: Short name.
        options: Options of the environment and of sessions.
        tool: Name of the tool.
        action: Pattern of the expert's reply, with the arguments of the tool as named groups.
        best_return: Return of a successful episode; None if the environment reports success.
        num_validation: Number of validation levels.
        num_held_out: Number of held-out levels.
    """

    name: str
    options: dict[str, Any]
    tool: str
    action: str
    best_return: float | None = None
    num_validation: int = 128
    num_held_out: int = 256

    @property
    def max_turns(self) -> int:
        """Limit of turns of an episode."""
        return self.options["max_turns"]

    def make(self) -> Any:
        """Return an environment for TRL: `environment_factory=game.make`."""
        return trl.make(self.name, **self.options)

    def is_success(self, episode: Any) -> bool:
        """Return whether an episode is successful."""
        if episode.result is None or self.best_return is None:
            return episode.result is not None and episode.result.is_solved
        return math.isclose(episode.result.total_reward, self.best_return, rel_tol=1e-3)


GAMES = {
    "frozen_lake": Game(
        "frozen_lake",
        {"size": 4, "max_turns": 12},
        tool="move",
        action="<action>(?P<direction>.*)</action>",
    ),
    # The chats of `baselines.grpo --model`, which starts from weights of `sft.py frozen_lake_ragen --form replies`.
    "frozen_lake_ragen": Game(
        "frozen_lake",
        {"dialect": "ragen", "max_turns": 12},
        tool="move",
        action="<answer>(?P<direction>.*)</answer>",
    ),
    # Two commands, each shown once. Only 416 levels are different, so fewer of them are held out.
    "mortar_mayhem": Game(
        "mortar_mayhem_grid",
        {
            "arena_size": 6,
            "command_count": [2],
            "max_commands": 10,
            "allowed_commands": 4,
            "command_show_duration": [1],
            "command_show_delay": [0],
            "explosion_delay": [2],
            "explosion_duration": [1],
            "reward_command_success": 0.5,
            "max_turns": 8,
        },
        tool="act",
        action="<action>(?P<actions>.*)</action>",
        best_return=1.0,
        num_validation=64,
        num_held_out=128,
    ),
    "sudoku": Game(
        "sudoku",
        {"clues": [78, 79, 80], "max_turns": 6},  # one to three empty cells
        tool="place",
        action=r"\[(?P<row>\d) (?P<column>\d) (?P<number>\d)\]",
    ),
}
"""Games by name."""


def seeds_of(game: Game, split: str, count: int | None = None) -> list[int]:
    """Return level seeds of a split: `train`, `validation` or `held_out`.

    No training level has the content of a validation or held-out level.

    Args:
        game: The game.
        split: The split.
        count: Number of seeds; None returns all seeds of an evaluated split.
    """
    splits = {
        "validation": levels.held_out_seeds(game.num_validation, game.num_held_out),
        "held_out": levels.held_out_seeds(game.num_held_out),
    }
    if split in splits or count is None:
        return splits[split][:count].tolist()
    options = {name: value for name, value in game.options.items() if name != "max_turns"}
    env, params, _ = text.make(game.name, levels="fresh", **options)
    seeds = levels.train_seeds(4 * count)
    evaluated = levels.make_level_buffer(env, params, np.concatenate(list(splits.values())))
    is_evaluated = levels.contained(levels.make_level_buffer(env, params, seeds), evaluated)
    return seeds[~is_evaluated][:count].tolist()


def rows(seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return data rows for TRL, one for each level seed."""
    return [{"prompt": [{"role": "user", "content": "Play this game.\n\n"}], "seed": seed} for seed in seeds]


class ToolEpisode:
    """Episode in the form of TRL's `environment_factory`: the prompt is one message, replies are tool calls."""

    role: ClassVar[str] = "tool"
    last: ClassVar[list[dict[str, str]]] = [{"role": "assistant", "content": ""}]  # a reply without a call is the end

    def __init__(self, game: Game):
        """Make an episode without starting it."""
        self.game, self.env = game, game.make()

    def start(self, seed: int) -> list[dict[str, str]]:
        """Start the episode of a level; return the first messages."""
        ((message,),) = (row["prompt"] for row in rows([seed]))
        return [{"role": "user", "content": message["content"] + self.env.reset(seed=seed)}]

    def reply_of(self, expert_reply: str) -> str:
        """Return the tool call for a reply of the expert."""
        found = re.fullmatch(self.game.action, expert_reply)
        if found is None:
            raise ValueError(f"expected a reply {self.game.action}, got {expert_reply!r}")
        given = {name: int(value) if value.isdigit() else value for name, value in found.groupdict().items()}
        return f"{self.game.tool}({', '.join(f'{name}={json.dumps(value)}' for name, value in given.items())})"

    def step(self, tokenizer: Any, reply: str) -> str | None:
        """Make a turn; return the result of the tool, or None if the reply is no tool call, which ends the episode."""
        ids = tokenizer(reply)["input_ids"]
        calls = parse_response(tokenizer, ids, prefix=[]).get("tool_calls") if ids else None
        if not calls:
            return None
        call = calls[0]["function"]
        if call["name"] != self.game.tool:
            return str({"error": f"Tool {call['name']} not found."})  # as TRL
        return getattr(self.env, self.game.tool)(**call["arguments"])

    @property
    def episode(self) -> Any:
        """The running or last episode, with its `result`."""
        return self.env.episode


class ReplyEpisode(ToolEpisode):
    """Episode in the form of `jaxgym rollout`, `jaxgym eval` and ms-swift: replies have an action in a tag."""

    role: ClassVar[str] = "user"
    last: ClassVar[list[dict[str, str]]] = []

    def start(self, seed: int) -> list[dict[str, str]]:
        """Start the episode of a level; return the first messages."""
        super().start(seed)
        opening = self.episode.start()  # with the form of a reply in its system prompt
        return [{"role": "system", "content": opening.system_prompt}, {"role": "user", "content": opening.text}]

    def reply_of(self, expert_reply: str) -> str:
        """Return the reply of the expert."""
        return expert_reply

    def step(self, tokenizer: Any, reply: str) -> str | None:
        """Make a turn; return the next text."""
        return self.episode.step(reply).text


FORMS = {"tools": ToolEpisode, "replies": ReplyEpisode}


def demonstrations(game: Game, form: str, seeds: Sequence[int], tokenizer: Any) -> list[dict[str, Any]]:
    """Return chats of the expert's successful episodes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chats.jsonl"
        demos.write_chats(path, game.name, game.options, seeds, game.max_turns)
        played = [json.loads(line) for line in path.read_text().splitlines()]
    chats = []
    for row in played:
        one = FORMS[form](game)
        chat = one.start(row["env_config"]["seed"])
        for message in row["messages"]:
            if message["role"] == "assistant":
                reply = one.reply_of(message["content"])
                chat.append({"role": "assistant", "content": reply})
                chat.append({"role": one.role, "content": one.step(tokenizer, reply)})
        if game.is_success(one.episode):
            chats.append({"messages": [*chat, *one.last]})
        one.episode.close()
    return chats


def play(
    model: Any, tokenizer: Any, game: Game, form: str, seeds: Sequence[int], temperature: float = 1.0
) -> list[dict[str, Any]]:
    """Play a level of each seed, all at the same time; return a record of each episode.

    Args:
        model: A model of transformers.
        tokenizer: Its tokenizer.
        game: The game.
        form: A name of `FORMS`.
        seeds: Level seeds.
        temperature: Sampling temperature; 0 selects the most likely token.
    """
    played = [FORMS[form](game) for _ in seeds]
    chats = [one.start(seed) for one, seed in zip(played, seeds, strict=True)]
    num_unparsed, num_tokens = [0] * len(chats), [0] * len(chats)
    playing = list(range(len(chats)))
    for _ in range(game.max_turns):
        completions = _complete(model, tokenizer, [chats[index] for index in playing], temperature)
        for index, ids in zip(playing, completions, strict=True):
            reply = tokenizer.decode(ids, skip_special_tokens=True)
            result = played[index].step(tokenizer, reply)
            chats[index].append({"role": "assistant", "content": reply})
            num_tokens[index] += len(ids)
            if result is None:
                num_unparsed[index] += 1
            else:
                chats[index].append({"role": played[index].role, "content": result})
        playing = [index for index in playing if not num_unparsed[index] and not played[index].episode.has_ended]
        if not playing:
            break
    records = [
        {
            "seed": seed,
            "success": game.is_success(one.episode),
            "return": float(one.episode.result.total_reward) if one.episode.result else 0.0,
            "replies": sum(message["role"] == "assistant" for message in chat),
            "invalid_replies": unparsed + one.episode.invalid_replies,
            "reply_tokens": tokens,
            "messages": chat,
        }
        for seed, one, chat, unparsed, tokens in zip(seeds, played, chats, num_unparsed, num_tokens, strict=True)
    ]
    for one in played:
        one.episode.close()
    return records


def _complete(model: Any, tokenizer: Any, chats: Sequence[Any], temperature: float) -> list[list[int]]:
    """Return the tokens of a completion of each chat, without padding."""
    prompts = tokenizer.apply_chat_template(list(chats), add_generation_prompt=True, tokenize=False)
    batch = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
    with torch.no_grad():
        made = model.generate(
            input_ids=batch["input_ids"].to(model.device),
            attention_mask=batch["attention_mask"].to(model.device),
            max_new_tokens=MAX_NEW_TOKENS,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            **sampling,
        )
    completions = made[:, batch["input_ids"].shape[1] :].tolist()
    end = tokenizer.eos_token_id
    return [ids[: ids.index(end) + 1] if end in ids else ids for ids in completions]


def summary(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return success with its 95 % Wilson interval, and means over the episodes."""
    successes, episodes = sum(record["success"] for record in records), len(records)
    replies = sum(record["replies"] for record in records)
    return {
        "episodes": episodes,
        "success": successes / episodes,
        "interval": [round(end, 3) for end in wilson(successes, episodes)],
        "return": sum(record["return"] for record in records) / episodes,
        "turns": replies / episodes,
        "invalid_reply_rate": sum(record["invalid_replies"] for record in records) / replies,
        "reply_tokens": sum(record["reply_tokens"] for record in records) / replies,
    }
