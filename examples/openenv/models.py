"""Messages between client and server."""

from typing import Any

from pydantic import Field

from openenv.core.env_server.types import Action, Observation


class Reply(Action):
    """Reply of a model, unchanged."""

    message: str


class GameObservation(Observation):
    """Text and results of a game."""

    prompt: str = Field(default="", description="The rules and the form of a reply")
    text: str = Field(default="", description="The newest text")
    messages: list[dict[str, Any]] = Field(default_factory=list, description="The newest text for TextArena")
    info: dict[str, Any] = Field(default_factory=dict, description="Turn, seed, invalid reply, reward signals")
