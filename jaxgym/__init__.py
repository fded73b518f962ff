"""JAX-native environments: pure, jitted reset and step over PRNG-keyed state."""

from jaxgym import errors, levels, serve, spaces, testing, text, wrappers
from jaxgym.environment import Environment, EnvParams, EnvState, Transition
from jaxgym.options import Choices, Preset
from jaxgym.registration import Spec, make, presets, register, registered_envs, spec_of

__version__ = "0.1.0"

__all__ = [
    "Choices",
    "EnvParams",
    "EnvState",
    "Environment",
    "Preset",
    "Spec",
    "Transition",
    "errors",
    "levels",
    "make",
    "presets",
    "register",
    "registered_envs",
    "serve",
    "spaces",
    "spec_of",
    "testing",
    "text",
    "wrappers",
]
