"""Session of an OpenEnv client: its observations, and its calls of the pool."""

import json
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jaxgym.serve.errors import ClosedSessionError
from jaxgym.serve.images import as_base64
from jaxgym.serve.openenv.tasks import start_of
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.sessions import Opening, TurnResult
from jaxgym.text import InvalidReply

_GAME = -1  # the sender of a message of the game


class ClientSession:
    """Session of a client.

    Some clients expect the whole conversation in the first message: if it is longer than the last one, they remove as
    many characters as the last one had. A text that is longer than the last message is therefore appended to it.

    Attributes:
        id: The session id, a random string.
        used: Time of the client's last message, in seconds of `time.monotonic`.
        hang_up: Closes the client's socket; None without a socket.
        is_ending: Whether the session ends with its socket.
        version: Version of the Model Context Protocol of the client; empty for a client of OpenEnv.
        episode_id: Id of the episode for the client; None before the first.
        turns: Number of steps of the client in this episode.
        seed: The level seed of the episode.
    """

    def __init__(self, pool: SessionPool, opening: Opening):
        """Wrap a session of the pool that has not started."""
        self._pool, self._env_id = pool, opening.env_id
        self.id, self.used = opening.id, time.monotonic()
        self.hang_up: Callable[[], Awaitable[None]] | None = None
        self.is_ending, self.version = False, ""
        self.episode_id: str | None = None
        self.seed, self.turns, self._last = opening.seed, 0, ""
        self._prompt = '{"observation":{"prompt":' + json.dumps(opening.system_prompt) + ',"text":'

    async def reset(self, given: Any) -> str:
        """Start the next episode; return the observation, as JSON.

        Raises:
            FrameError: If the arguments are invalid.
        """
        seed, episode_id = start_of(given)
        return self._opened(await self._pool.areset(self.id, seed), episode_id)

    async def step(self, reply: str | InvalidReply) -> str:
        """Make a turn; return the observation, as JSON."""
        return self._stepped(await self._pool.astep(self.id, reply))

    def go_back(self, turns: int, text: str) -> None:
        """Continue after a number of turns and a text, which `undo` or `load` has restored."""
        self.turns, self._last = turns, text

    def state(self) -> dict[str, Any]:
        """Return the state of the episode."""
        played = self._pool.look(self.id)
        if played is None:
            raise ClosedSessionError("The session was closed. Open another one.")
        return {
            "episode_id": self.episode_id,
            "step_count": self.turns,
            "env_id": self._env_id,
            "seed": played.seed,
            "total_reward": played.total_reward,
            "terminated": played.last is not None and played.last.terminated,
            "truncated": played.last is not None and played.last.truncated,
        }

    def _opened(self, opening: Opening, episode_id: str | None) -> str:
        """Return the first observation of an episode, as JSON."""
        self.episode_id, self.seed, self.turns = episode_id or str(uuid.uuid4()), opening.seed, 0
        self._last = opening.text
        said = json.dumps(opening.text)
        info = {"turn": 0, "seed": opening.seed, "text_version": opening.text_version}
        return self._observation(said + _image_field(opening.image), said, info, "null", False)

    def _stepped(self, result: TurnResult) -> str:
        """Return the observation after a step, as JSON."""
        self.episode_id = self.episode_id or str(uuid.uuid4())
        self.turns += 1
        text, before = result.text, self._last
        said = content = json.dumps(text)
        if len(text) > len(before):
            text = f"{before}\n{text}"
            content = json.dumps(text)
        self._last = text
        info = {
            "turn": result.number,
            "seed": self.seed,
            "invalid_reply": result.invalid_reply,
            "terminated": result.terminated,
            "truncated": result.truncated,
            "is_solved": result.is_solved,
            "total_reward": result.total_reward,
            "reward_signals": result.components,
        }
        if result.info:
            info["episode"] = result.info
        has_ended = result.terminated | result.truncated
        said += _image_field(result.image)
        return self._observation(said, content, info, repr(float(result.reward)), has_ended)

    def _observation(self, said: str, content: str, info: Mapping[str, Any], reward: str, has_ended: bool) -> str:
        return (
            f'{self._prompt}{said},"messages":[{{"sender_id":{_GAME},"content":{content},"category":"MESSAGE"}}],'
            f'"info":{json.dumps(info)}}},"reward":{reward},"done":{"true" if has_ended else "false"}}}'
        )


def _image_field(image: bytes | None) -> str:
    """Return the entry of an observation with its image, after another entry; empty without an image."""
    return "" if image is None else f',"image":"{as_base64(image)}"'
