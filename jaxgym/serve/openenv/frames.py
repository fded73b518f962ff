"""Frames of OpenEnv's WebSockets, and the action of a step."""

import json
from typing import Annotated, Any

import pydantic

from jaxgym.serve.web.answers import MOST_SAID, quoted
from jaxgym.serve.web.api import Text

INVALID_JSON, UNKNOWN_TYPE, VALIDATION_ERROR = "INVALID_JSON", "UNKNOWN_TYPE", "VALIDATION_ERROR"
EXECUTION_ERROR, CAPACITY_REACHED, SESSION_ERROR = "EXECUTION_ERROR", "CAPACITY_REACHED", "SESSION_ERROR"

Metadata = Annotated[dict[str, Any], pydantic.Field(description="Ignored.")]


class StrictModel(pydantic.BaseModel):
    """Message without further entries and without conversions of values."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


class MessageAction(StrictModel):
    """Action of a step."""

    metadata: Metadata = {}
    message: Annotated[Text, pydantic.Field(description="The unchanged reply of the model.")]


class StateFrame(StrictModel):
    """Frame without data."""

    type: str


class StepFrame(StateFrame):
    """Frame of a step."""

    data: MessageAction


class CallFrame(StateFrame):
    """Frame of a call of JSON-RPC."""

    data: dict[str, Any]


class ResetFrame(StateFrame):
    """Frame of a reset; `jaxgym.serve.openenv.sessions.ResetOptions` validates its data."""

    data: dict[str, Any] = {}


def observation_frame(observation: str) -> str:
    """Return the frame of an observation in JSON."""
    return f'{{"type":"observation","data":{observation}}}'


def error_frame(code: str, message: str, **more: Any) -> str:
    """Return the frame of an error."""
    return json.dumps({"type": "error", "data": {"message": quoted(message, MOST_SAID), "code": code, **more}})
