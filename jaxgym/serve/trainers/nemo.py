"""Resources server of NVIDIA NeMo Gym for every text environment, in text and with images.

    from jaxgym.serve.trainers.nemo import NemoServer
    NemoServer.run_webserver()            # in the app.py of a resources server

NeMo Gym's `gymnasium_agent` plays on it. Observations of NeMo Gym are text, so images are in the results of tool calls.
`NemoServer` is a subclass of `GymnasiumServer` if NeMo Gym is installed; otherwise it behaves in the same way.
"""

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxgym.serve.episodes import CAPACITY, Episode, options_of
from jaxgym.serve.errors import UnknownSessionError
from jaxgym.serve.images import data_url
from jaxgym.serve.messages import content_text
from jaxgym.serve.swift import info_of
from jaxgym.serve.trainers.rows import episode_of, start_of
from jaxgym.serve.trainers.tools import Tools


class _PlainServer:
    """Part of NeMo Gym's `GymnasiumServer` that its subclass uses."""

    def __init__(self) -> None:
        self.session_state: dict[Any, Any] = {}

    async def close_session(self, session_id: str | None) -> None:
        self.session_state.pop(session_id, None)


try:
    _Server: Any = importlib.import_module("resources_servers.gymnasium").GymnasiumServer
except ImportError:
    _Server = _PlainServer


class _NemoSession(NamedTuple):
    episode: Episode
    tools: Tools
    has_images: bool


class NemoServer(_Server):
    """Sessions of text environments, by the cookie of NeMo Gym, on the shared session pool of the process.

    No response of a model raises an exception: the next observation, or the result of the tool call, has the error text
    of an invalid reply.
    """

    def setup_webserver(self) -> Any:
        """Return the app of the base class with a route `/close`, which the agent calls after every rollout."""
        app, key = super().setup_webserver(), importlib.import_module("nemo_gym.server_utils").SESSION_ID_KEY
        response = importlib.import_module("starlette.responses").JSONResponse

        async def close(request: Any) -> Any:
            await self.close_session(request.session.get(key))
            return response({})

        app.add_route("/close", close, methods=["POST"])
        return app

    async def reset(self, metadata: Mapping[str, Any], session_id: str | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            metadata: The row without `responses_create_params`; it has `env_config` and `seed`.
            session_id: The session.

        Returns:
            The system prompt with the first observation text, and a dict with id, seed and text version.

        Raises:
            UnknownIdError, OptionError, RequestError, CapacityError: See `Episode.start`.
        """
        await self.close_session(session_id)
        while len(self.session_state) >= CAPACITY:  # of agents that have died
            await self.close_session(next(iter(self.session_state)))
        episode = episode_of(metadata)
        opening = await episode.astart()
        tools = Tools(episode.name, options_of(metadata["env_config"]))
        session = self.session_state[session_id] = _NemoSession(episode, tools, opening.image is not None)
        rules = tools.system_prompt(opening) if session.has_images else opening.system_prompt
        return "\n\n".join(filter(None, (rules, opening.text))), {**start_of(opening), "supports_explicit_close": True}

    async def step(
        self, action: Any, metadata: Mapping[str, Any], session_id: str | None = None
    ) -> tuple[str | None, float, bool, bool, dict[str, Any]]:
        """Make a turn by the first tool call of a response, or by its text.

        Args:
            action: The response of the model.
            metadata: The row; ignored.
            session_id: The session of an episode; `UnknownSessionError` is raised for another one.

        Returns:
            The next observation text, or None if the response has tool calls, whose results are in the info; the reward
            of the turn; whether the episode is terminated and truncated; and the info of the turn.
        """
        session: _NemoSession | None = self.session_state.get(session_id)
        if session is None:
            raise UnknownSessionError("expected a session with an episode, got another one. Call /reset first.")
        calls = [item for item in action.output if item.type == "function_call"]
        messages = (content_text(item.content) for item in action.output if item.type == "message")
        reply, asked = "".join(messages), ""
        if calls or session.has_images:
            reply, asked = session.tools.reply_of(*((calls[0].name, calls[0].arguments) if calls else (None, None)))
        result = await session.episode.astep(reply)
        text, info = result.text, info_of(result)
        if result.invalid_reply is not None and asked:
            text = session.tools.with_call(text, asked)
        if calls:
            shown = text if result.image is None else _parts(text, result.image)
            others = ["Not executed. Make one tool call in each turn."] * (len(calls) - 1)
            pairs = zip(calls, [shown, *others], strict=True)
            info["tool_outputs"] = [{"call_id": call.call_id, "output": output} for call, output in pairs]
        return None if calls else text, float(result.reward), result.terminated, result.truncated, info

    async def close_session(self, session_id: str | None) -> None:
        """Close a session; can be called at any time."""
        session: _NemoSession | None = self.session_state.get(session_id)
        await super().close_session(session_id)
        if session is not None:
            session.episode.close()


def row_of(name: str, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a data row.

    With images, the tools and the first image are in the request, because the agent adds only text to it.

    Args:
        name: Id or short name of an environment with a text interface.
        seed: The level seed.
        options: Options of the environment, of its text interface, and of sessions.
    """
    row = {"seed": seed, "env_config": {"name": name, **options}}
    episode = Episode(name, seed, options)
    image = episode.start().image
    episode.close()
    if image is None:
        return {"responses_create_params": {"input": [{"role": "user", "content": "Play."}]}, **row}
    chat = [{"role": "user", "content": _parts("Play. This is the first image.", image)}]
    return {"responses_create_params": {"input": chat, "tools": Tools(name, options).definitions()}, **row}


def _parts(text: str, image: bytes) -> list[dict[str, str]]:
    shown = {"type": "input_image", "image_url": data_url(image), "detail": "auto"}
    return [shown, {"type": "input_text", "text": text}]
