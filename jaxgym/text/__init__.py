"""Text interfaces: prompts for language models, and the parsing of their replies."""

from jaxgym.spec import TextSpec
from jaxgym.text.catalogue import make, make_registered, short_name_of, text_envs, text_spec_of
from jaxgym.text.words import Ledger, Move, Refusal, Turn, Turns, Words

__all__ = [
    "Ledger",
    "Move",
    "Refusal",
    "TextSpec",
    "Turn",
    "Turns",
    "Words",
    "make",
    "make_registered",
    "short_name_of",
    "text_envs",
    "text_spec_of",
]
