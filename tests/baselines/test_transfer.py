"""Playing an agent in both packages, as far as it can be tested without memory-gym."""

import importlib.util
import sys
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

import jaxgym
from baselines import transfer
from baselines.errors import ConfigError
from baselines.zoo import load


@pytest.mark.skipif(importlib.util.find_spec("memory_gym") is not None, reason="memory-gym is installed")
def test_without_memory_gym_the_command_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["transfer", "zoo:MysteryPath-Grid-v0"])
    with pytest.raises(SystemExit, match=r"memory_gym is not installed in .*\. Run make parity"):
        transfer.main()


@pytest.mark.parametrize("change", [{"episodes": 0}, {"episodes": 51}, {"seed": -1}, {"seed": 2**31}])
def test_numbers_out_of_range_are_rejected(change: dict[str, int]) -> None:
    (name,) = change
    with pytest.raises(ConfigError, match=rf"^(--)?{name}: expected a number from .*, got {change[name]}$"):
        transfer.transfer(transfer.TransferFlags("zoo:MysteryPath-Grid-v0", **change))


@pytest.mark.slow
def test_the_original_is_given_the_options_that_a_preset_stands_for() -> None:
    agent = load("MortarMayhem-v0")
    assert agent.config.env_options == {"preset": "jmlr2025"}
    given: list[tuple[int, dict[str, Any]]] = []

    class Original:
        def reset(self, *, seed: int, options: dict[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
            given.append((seed, options))
            return np.zeros((84, 84, 3), np.uint8), {}

        def step(self, _: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            return np.zeros((84, 84, 3), np.uint8), 0.0, True, False, {}

    transfer.play([Original()], agent, [200_000], jax.random.key(0))
    assert given == [(200_000, dict(jaxgym.presets("MortarMayhem-v0")["jmlr2025"].options))]


@pytest.mark.slow
def test_equal_keys_and_levels_give_equal_episodes_and_others_do_not() -> None:
    agent = load("MysteryPath-Grid-v0")

    def played(level: int, key: int) -> list[transfer.PlayedEpisode]:
        env = gymnasium.make("jaxgym/MysteryPath-Grid-v0", memory_gym_layout=True)
        return transfer.play([env], agent, [level], jax.random.key(key))

    one = played(200_000, 0)
    assert one == played(200_000, 0)
    assert one != played(200_001, 0)
    assert one[0].success == 1
    assert sum(one[0].rewards) == 1
