"""Taskset of verifiers with all games of jaxgym that have a text interface: `vf-eval jaxgym-games`."""

from jaxgym.serve.trainers.verifiers import GameEnv, GameHarness, GameTaskset

__all__ = ["GameEnv", "GameHarness", "GameTaskset"]
