"""Wrappers: environments that contain an environment and satisfy the same contract."""

from jaxgym.wrappers.base import WrappedState, Wrapper
from jaxgym.wrappers.frame_skip import FrameSkip, FrameSkipParams
from jaxgym.wrappers.from_gymnax import FromGymnax, GymnaxParams
from jaxgym.wrappers.observations import LastActionReward, PositionObservation
from jaxgym.wrappers.sampled_options import SampledLevel, SampledOptions
from jaxgym.wrappers.spotlight_perturbation import PerturbedLevel, PerturbedParams, SpotlightPerturbation

__all__ = [
    "FrameSkip",
    "FrameSkipParams",
    "FromGymnax",
    "GymnaxParams",
    "LastActionReward",
    "PerturbedLevel",
    "PerturbedParams",
    "PositionObservation",
    "SampledLevel",
    "SampledOptions",
    "SpotlightPerturbation",
    "WrappedState",
    "Wrapper",
]
