"""Environments in words: what a language model reads, and what its replies mean."""

from jaxgym.text import games as games  # the rows of the table
from jaxgym.text.catalogue import TextSpec, make, register, text_envs, text_spec_of, unregister
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
    "register",
    "text_envs",
    "text_spec_of",
    "unregister",
]
