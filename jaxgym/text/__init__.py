"""Text interfaces: prompts for language models, and the parsing of their replies."""

from jaxgym.spec import TextSpec
from jaxgym.text.catalog import make, make_registered, short_name_of, text_envs, text_spec_of
from jaxgym.text.interface import TextInterface
from jaxgym.text.turns import InvalidReply, ParsedAction, RewardTracker, Turn, Turns

__all__ = [
    "InvalidReply",
    "ParsedAction",
    "RewardTracker",
    "TextInterface",
    "TextSpec",
    "Turn",
    "Turns",
    "make",
    "make_registered",
    "short_name_of",
    "text_envs",
    "text_spec_of",
]
