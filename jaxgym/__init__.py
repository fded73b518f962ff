"""Reinforcement learning environments in JAX.

`jaxgym.make(env_id)` returns an environment and its parameters. Importing jaxgym is fast: submodules and JAX are
imported on first use. `import jaxgym` registers the ids with Gymnasium. It registers them with gymnax too if gymnax is
already imported. If gymnax is imported later, the first call of `make`, `register` or another function of
`jaxgym.registration` registers them with gymnax.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from jaxgym import interrupts

interrupts.start("jaxgym", "baselines")

if TYPE_CHECKING:
    from jaxgym import errors, facts, levels, serve, spaces, testing, text, wrappers
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
    "facts",
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

_NAMES_BY_MODULE = {
    "environment": ("EnvParams", "EnvState", "Environment", "Transition"),
    "options": ("Choices", "Preset", "parse_options"),
    "registration": ("make", "presets", "register", "registered_envs", "spec_of", "unregister"),
    "spec": ("Human", "Original", "Spec", "TextSpec"),
}
_SUBMODULES = {"level_buffer_files", "envs", "errors", "facts", "levels", "rendering", "serve", "spaces", "testing"}
_SUBMODULES |= {*_NAMES_BY_MODULE, "text", "wrappers"}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"jaxgym.{name}")
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f"jaxgym.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *(name for name in __all__ if name not in globals())]


importlib.import_module("jaxgym.forks")  # registers a hook that has to run at every fork from here on
importlib.import_module("jaxgym.registry")  # registers the ids with Gymnasium
if "gymnax" in sys.modules:
    importlib.import_module("jaxgym.registration")
