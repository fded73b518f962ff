"""Second environment of the package, which is registered where this module is imported."""

import dataclasses

import jaxgym
from echo_game import SPEC

SLOW = dataclasses.replace(SPEC, changes={"delay": {"default": 5}})

jaxgym.register("SlowEcho-v0", SLOW)
