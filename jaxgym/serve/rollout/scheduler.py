"""Trajectories: alternating turns of a policy and a session.

The hooks have the names and signatures of ms-swift's schedulers; a subclass can override each of them:

    on_trajectory_start ─▶ reply ─▶ on_turn_end ─▶ check_finished ─▶ step ─▶ reply ─▶ ...
"""

import asyncio
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from jaxgym.errors import OptionError
from jaxgym.serve.episodes import Episode, options_of
from jaxgym.serve.errors import SessionError
from jaxgym.serve.messages import check_history, content_text, recent, usage_of, user_message
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.pool.difficulty import without
from jaxgym.serve.rollout.policies import Choice, Message, Policy, PolicyError, Request
from jaxgym.serve.rollout.scripted import game_of
from jaxgym.text import ParsedAction
from jaxgym.text.reasoning import without_reasoning

MOST_TURNS = 512
"""Default maximum number of turns, equal to the longest time limit of a built-in environment."""


@dataclasses.dataclass(frozen=True)
class RolloutSettings:
    """Settings of a rollout.

    Attributes:
        max_turns: Turns after which a trajectory is truncated. With None, a trajectory of an environment without a time
            limit, or of a model whose replies are all invalid, never ends.
        concurrency: Number of concurrent trajectories.
        turn_seconds: Timeout of a reply in seconds.
        retries: Number of retries of a failed reply; then the trajectory ends with an error.
        backoff_seconds: Waiting time before the first retry in seconds, doubled for each further retry.
        history_turns: Number of the last turns that the policy sees, in addition to the first one; None shows all.
        history_images: Number of the last turns whose images the policy sees; None shows those of the last
            `history_turns`. The record of a trajectory has all turns and images.
    """

    max_turns: int | None = MOST_TURNS
    concurrency: int = 64
    turn_seconds: float = 120.0
    retries: int = 3
    backoff_seconds: float = 1.0
    history_turns: int | None = None
    history_images: int | None = None

    def __post_init__(self) -> None:
        """Validate the settings."""
        if self.max_turns is not None and self.max_turns < 1:
            raise OptionError(f"max_turns: expected an integer of at least 1, or None, got {self.max_turns}.")
        check_history(self.history_turns, self.history_images)
        are_times = self.turn_seconds > 0 and self.backoff_seconds >= 0  # neither of NaN
        if self.concurrency < 1 or self.retries < 0 or not are_times:
            raise OptionError(
                "expected concurrency >= 1, retries >= 0, turn_seconds > 0 and backoff_seconds >= 0, got "
                f"{self.concurrency}, {self.retries}, {self.turn_seconds} and {self.backoff_seconds}."
            )


class Scheduler:
    """Scheduler of trajectories of any environments, each with an episode in a session pool."""

    def __init__(self, policy: Policy, settings: RolloutSettings | None = None, pool: SessionPool | None = None):
        """Make a scheduler without trajectories; without a pool, it uses the shared pool of the process."""
        self.policy, self.settings = policy, RolloutSettings() if settings is None else settings
        self._pool = pool
        self._episodes: dict[str, Episode] = {}
        self._infos: dict[str, dict[str, Any]] = {}

    def check(self, env_config: Mapping[str, Any]) -> None:
        """Check a row and compile the programs of its environment; raises the errors of `SessionPool.prepare`."""
        name, options = env_config.get("name", ""), options_of(env_config)
        Episode(name, None, options, self._pool).check()
        self.policy.check(name, options)

    # The hooks.

    async def on_trajectory_start(self, requests: Sequence[Request]) -> None:
        """Start an episode for each request, and put system prompt and first text into its messages.

        Raises:
            UnknownIdError, OptionError, LevelError: If an environment can't be made.
            SessionError: If a seed is invalid, or the pool is full.
        """
        await asyncio.gather(*map(self._start, requests))

    async def _start(self, request: Request) -> None:
        entries = dict(request.env_config)
        options = options_of(entries)
        episode = Episode(entries.get("name", ""), entries.get("seed"), options, self._pool)
        opening = await episode.astart()
        if opening.adapted is not None:
            options = {**without(options), **opening.adapted}
            self._infos[request.uuid]["difficulty"] = opening.difficulty
        request.messages = [
            {"role": "system", "content": opening.system_prompt},
            user_message(opening.text, opening.image),
        ]
        request.data_dict = {**request.data_dict, "env_config": {"name": episode.name, "seed": opening.seed, **options}}
        self._episodes[request.uuid] = episode
        self._infos[request.uuid]["text_version"] = opening.text_version

    async def on_turn_end(self, request: Request, choice: Choice, current_turn: int) -> dict[str, Any]:
        """Make the turn of a reply, which is the last message, and add its result to the record.

        Returns:
            `rollout_infos`, and `done` if the episode has ended.
        """
        episode, infos = self._episodes[request.uuid], self._infos[request.uuid]
        interface = game_of(episode.name, options_of(request.env_config))[2]
        result = await episode.astep(choice.message.content)
        move = interface.parse(choice.message.content)
        infos["total_reward"] = result.total_reward
        infos["step_rewards"].append(result.reward)
        parts: dict[str, float] = infos["components"]
        infos["components"] = {name: parts.get(name, 0.0) + part for name, part in result.components.items()}
        infos["num_turns"] = current_turn
        infos["num_invalid_replies"] = episode.invalid_replies
        infos["num_exact"] += isinstance(move, ParsedAction) and move.is_exact
        infos |= {"is_solved": result.is_solved, "terminated": result.terminated, "truncated": result.truncated}
        ending = {"done": True} if episode.has_ended else {}
        return {"rollout_infos": infos, **ending}

    def check_finished(self, request: Request, choice: Choice, current_turn: int) -> bool:
        """Return whether a running trajectory is truncated, after `max_turns` turns."""
        return self.settings.max_turns is not None and current_turn >= self.settings.max_turns

    def step(self, request: Request, choice: Choice, current_turn: int) -> dict[str, Any]:
        """Add the next text and image to the messages; return the request."""
        result = self._episodes[request.uuid].result
        if result is not None:
            request.messages.append(user_message(result.text, result.image))
        return {"infer_request": request}

    # The loop.

    async def run(self, request: Request) -> dict[str, Any]:
        """Run a trajectory to its end; afterwards the messages of the request are the whole chat.

        Returns:
            The entries of a line of `completions.jsonl` from `text_version` to `error`; see docs/reference/rollouts.md.
        """
        stopped, why = "error", None
        infos = self._infos[request.uuid] = _blank()
        try:
            await self.on_trajectory_start([request])
            for turn in itertools.count(1):
                choice = await self._reply(request)
                request.messages.append({"role": "assistant", "content": choice.message.content})
                infos |= _with_turn(infos, choice)
                ended = await self.on_turn_end(request, choice, turn)
                infos |= ended.get("rollout_infos", {})
                if ended.get("done", False) or self.check_finished(request, choice, turn):
                    stopped = "done" if ended.get("done", False) else "max_turns"
                    break
                request = self.step(request, choice, turn)["infer_request"]
        except (PolicyError, SessionError) as error:
            why = str(error)
        finally:
            self.policy.forget(request)
            episode = self._episodes.pop(request.uuid, None)
            if episode is not None:
                episode.close()
            del self._infos[request.uuid]
        return {**infos, "stopped": stopped, "error": why}

    async def _reply(self, request: Request) -> Choice:
        """Request a reply with retries; raise the last failure."""
        settings, failure = self.settings, PolicyError("no reply was requested.")
        seen = self._seen(request)
        for attempt in range(settings.retries + 1):
            if attempt:
                await asyncio.sleep(settings.backoff_seconds * 2 ** (attempt - 1))
            try:
                choice = await asyncio.wait_for(self.policy.reply(seen), settings.turn_seconds)
                return choice._replace(message=Message(content_text(choice.message.content)))
            except TimeoutError:
                failure = PolicyError(f"no reply within {settings.turn_seconds:g} s.")
            except PolicyError as error:
                failure = error
            except Exception as error:  # an exception of the user's policy ends its own episodes only
                failure = PolicyError(f"the policy raised {type(error).__name__}: {error}")
            failures: dict[str, int] = self._infos[request.uuid]["failures"]
            failures[str(failure)] = failures.get(str(failure), 0) + 1
            if failure.is_final:
                break
        raise failure

    def _seen(self, request: Request) -> Request:
        """Return the request with the part of the chat that the policy sees."""
        turns, images = self.settings.history_turns, self.settings.history_images
        if turns is None and images is None:
            return request
        return dataclasses.replace(request, messages=recent(request.messages, turns, images))


def _blank() -> dict[str, Any]:
    """Return the record of a trajectory before its first turn."""
    return {
        "text_version": None,
        "total_reward": 0.0,
        "step_rewards": [],
        "components": {},
        "num_turns": 0,
        "num_invalid_replies": 0,
        "num_exact": 0,
        "is_solved": False,
        "terminated": False,
        "truncated": False,
        "turns": [],
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "num_empty": 0,
        "num_length": 0,
        "failures": {},
    }


def _with_turn(infos: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
    """Return the entries of the record about completions, after another completion."""
    turns = [*infos["turns"], usage_of(choice)]
    sums = {
        name: None if infos[name] is None or turns[-1][name] is None else infos[name] + turns[-1][name]
        for name in ("prompt_tokens", "completion_tokens")
    }
    return {
        "turns": turns,
        **sums,
        "num_empty": infos["num_empty"] + (not without_reasoning(choice.message.content).text),
        "num_length": infos["num_length"] + (choice.finish_reason == "length"),
    }
