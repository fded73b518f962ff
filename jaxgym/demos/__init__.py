"""Demonstrations: episodes of the scripted expert, as chats or as a Minari dataset."""

from jaxgym.demos.chats import write_chats
from jaxgym.demos.episodes import Demonstration, play
from jaxgym.demos.offline import write_dataset

__all__ = ["Demonstration", "play", "write_chats", "write_dataset"]
