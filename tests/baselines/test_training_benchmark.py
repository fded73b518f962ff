"""Ceiling of the training benchmark."""

import pytest

from baselines.config import Config
from benchmarks import training


@pytest.mark.parametrize(("dtype", "expected"), [("float32", 759e3), ("bfloat16", 1.42e6)])
def test_the_ceiling_of_the_published_network_is_set_by_memory(
    monkeypatch: pytest.MonkeyPatch, dtype: str, expected: float
) -> None:
    monkeypatch.setattr(training, "frame_shape", lambda _: (84, 84, 3))
    assert training.ceiling(Config(dtype=dtype), None) == pytest.approx(expected, rel=0.005)
    assert training.ceiling(Config(dtype=dtype, memory="lstm"), None) is None


def test_there_is_no_ceiling_without_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "frame_shape", lambda _: None)
    assert training.ceiling(Config(), None) is None
