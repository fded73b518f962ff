"""A game of jaxgym in words, as an environment of OpenEnv."""

from .client import GameEnv
from .models import GameObservation, Reply

__all__ = ["GameEnv", "GameObservation", "Reply"]
