"""OpenEnv environment with the text interface of a jaxgym game."""

from .client import GameEnv
from .models import GameObservation, Reply

__all__ = ["GameEnv", "GameObservation", "Reply"]
