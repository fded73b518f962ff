"""Client of the game."""

from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_server.types import State

from .models import GameObservation, Reply


class GameEnv(EnvClient[Reply, GameObservation, State]):
    """One session of the game."""

    def _step_payload(self, action: Reply) -> dict[str, Any]:
        return {"message": action.message}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[GameObservation]:
        reward, has_ended = payload.get("reward"), bool(payload.get("done"))
        observation = GameObservation(**payload["observation"], reward=reward, done=has_ended)
        return StepResult(observation=observation, reward=reward, done=has_ended)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)
