"""Videos of environments whose agents observe no frames by default, and of environments without frames."""

import dataclasses
import types
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from baselines import config, evaluate, game, train
from jaxgym import cli, registry
from jaxgym.errors import OptionError
from jaxgym.options import OneOf, static
from tests.t_maze import TMaze

FRAMELESS, SYMBOLIC_FIRST = "Frameless-v0", "SymbolicFirst-v0"


@dataclasses.dataclass(unsafe_hash=True)
class Drawable(TMaze):
    """A T-Maze with frames."""

    observation: str = static(OneOf("symbolic", "what an observation is", values=("symbolic", "pixels")))

    def observation_space(self, params: Any = None) -> Any:
        if self.observation == "symbolic":
            return super().observation_space(params)
        return jaxgym.spaces.Box(low=0, high=255, shape=(8, 8, 3), dtype=jnp.uint8)

    def observe_scene(self, scene: Any) -> Any:
        if self.observation == "symbolic":
            return super().observe_scene(scene)
        return jnp.broadcast_to(scene.place.astype(jnp.uint8), (8, 8, 3))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {FRAMELESS: jaxgym.Spec(TMaze), SYMBOLIC_FIRST: jaxgym.Spec(Drawable)}
    for env_id, spec in made.items():
        monkeypatch.setitem(registry._entries, env_id, registry.Entry(spec))


@pytest.mark.parametrize("argv", [[], ["observation=pixels"]])
def test_record_draws_a_game_whose_observation_is_symbolic_by_default(tmp_path: Path, argv: list[str]) -> None:
    out = tmp_path / "video.gif"
    said = cli.run(["record", SYMBOLIC_FIRST, *argv, "--policy", "noop", "--steps", "3", "--out", str(out)])
    assert "4 frames" in said
    assert np.asarray(iio.imread(out)).shape[1:] == (32, 32, 3)


@pytest.mark.parametrize("command", [["record", FRAMELESS, "--policy", "noop"], ["show", FRAMELESS]])
def test_what_has_no_frames_is_rejected_with_the_reason(tmp_path: Path, command: list[str]) -> None:
    out = tmp_path / ("video.gif" if command[0] == "record" else "image.png")
    with pytest.raises(
        OptionError, match=r"^Frameless-v0: expected an observation with a frame, .* got none\. Register"
    ):
        cli.run([*command, "--out", str(out)])
    assert not out.exists()


def test_an_agent_plays_a_drawn_game_in_its_video() -> None:
    for env_id, is_drawn in ((SYMBOLIC_FIRST, True), (FRAMELESS, False), ("FrozenLake-v0", True)):
        settings = config.Config(env=env_id, train_levels=0, held_out_levels=1)
        made = game.make_game(settings)
        made = made._replace(env=game.with_frames(made.env))
        assert (game.frame_shape(made) is not None) == is_drawn


def test_training_says_that_there_is_no_video(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = config.Config(env=FRAMELESS, train_levels=0, held_out_levels=1)
    monkeypatch.setattr(train, "run_blocks", lambda *_: types.SimpleNamespace(params=None, update=np.zeros(1)))
    monkeypatch.setattr(train.RunFolder, "draw_curve", lambda _: None)
    results = {"held_out": {"normalized_return": 0.0}}
    monkeypatch.setattr(train, "evaluate", lambda *_, **__: results)
    monkeypatch.setattr(train, "describe", lambda _: "scores")
    train.train(settings, train.RunFlags(name="run", runs_dir=tmp_path))
    assert evaluate.no_video(FRAMELESS) in capsys.readouterr().out
    assert not (tmp_path / "run" / "video.gif").exists()
