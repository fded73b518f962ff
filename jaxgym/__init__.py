"""JAX-native environments: pure, jitted reset and step over PRNG-keyed state.

What stands here is imported when it is first asked for, so that a server can listen before JAX is there. Gymnasium
knows the ids at once; gymnax does where it was imported before, else as soon as an id is looked up or made here.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from jaxgym import interrupts

interrupts.start("jaxgym", "baselines")

if TYPE_CHECKING:
    from jaxgym import errors, levels, serve, spaces, testing, text, wrappers
    from jaxgym.environment import Environment, EnvParams, EnvState, Transition
    from jaxgym.options import Choices, Preset, parse_options
    from jaxgym.registration import make, presets, register, registered_envs, spec_of, unregister
    from jaxgym.spec import Human, Original, Spec, TextSpec

__version__ = "0.1.0"

__all__ = [
    "Choices",
    "EnvParams",
    "EnvState",
    "Environment",
    "Human",
    "Original",
    "Preset",
    "Spec",
    "TextSpec",
    "Transition",
    "errors",
    "levels",
    "make",
    "parse_options",
    "presets",
    "register",
    "registered_envs",
    "serve",
    "spaces",
    "spec_of",
    "testing",
    "text",
    "unregister",
    "wrappers",
]

_HOMES = {
    "environment": ("EnvParams", "EnvState", "Environment", "Transition"),
    "options": ("Choices", "Preset", "parse_options"),
    "registration": ("make", "presets", "register", "registered_envs", "spec_of", "unregister"),
    "spec": ("Human", "Original", "Spec", "TextSpec"),
}
_ROOMS = {"bank_files", "envs", "errors", "levels", "rendering", "serve", "spaces", "testing"}
_ROOMS |= {*_HOMES, "text", "wrappers"}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"jaxgym.{name}")
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f"jaxgym.{home}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *(name for name in __all__ if name not in globals())]


importlib.import_module("jaxgym.forks")  # It has to see every fork from here on.
importlib.import_module("jaxgym.registry")  # It makes the ids known to Gymnasium.
if "gymnax" in sys.modules:
    importlib.import_module("jaxgym.registration")
