"""Second environment of the package, which is registered where this module is imported."""

import dataclasses

import jaxgym
from echo_game import SPEC
from jaxgym.options import Integer

SLOW = dataclasses.replace(SPEC, options={"delay": Integer(5, "blank steps before the answer counts", low=0)})

jaxgym.register("SlowEcho-v0", SLOW)
