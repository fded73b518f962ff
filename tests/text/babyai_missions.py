"""Missions of BabyAI, read from their text."""

import re
from typing import NamedTuple

CLAUSE = re.compile(r"(go to|open|pick up|put) (.+?)(?: next to (.+))?")
DESCRIPTION = re.compile(
    r"(?:a|the) (?:(red|green|blue|purple|yellow|grey) )?(key|ball|box|door|object)"
    r"(?: (on your left|on your right|in front of you|behind you))?"
)


class Clause(NamedTuple):
    verb: str
    first: str
    second: str | None


def phrases_of(mission: str) -> list[list[Clause]]:
    """Return the clauses of the phrases, in the order in which they must be fulfilled."""
    first, then, second = mission.partition(", then ")
    if not then:
        second, after, first = mission.partition(" after you ")
        first, second = (first, second) if after else (second, "")
    return [[clause_of(part) for part in phrase.split(" and ")] for phrase in (first, second) if phrase]


def clause_of(text: str) -> Clause:
    found = CLAUSE.fullmatch(text)
    assert found is not None, text
    return Clause(*found.groups())
