"""Numpad: find a hidden sequence of pads by trial, and repeat it from memory."""

from jaxgym.envs.numpad import continuous, discrete, original, text
from jaxgym.spec import Human, Spec

DISCRETE = Spec(
    discrete.Numpad,
    max_steps=500,
    valid_levels=discrete.valid_levels,
    original=original.ORIGINAL,
    expert=discrete.expert_action,
    human=Human(discrete.view, "clockwise"),
    text=text.TEXT,
)
CONTINUOUS = Spec(
    continuous.RollingNumpad,
    continuous.RollingParams,
    max_steps=200,
    valid_levels=continuous.valid_levels,
    original=original.ROLLING_ORIGINAL,
    expert=continuous.expert_action,
    human=Human(continuous.view, "clockwise"),
    text=text.ROLLING_TEXT,
)
