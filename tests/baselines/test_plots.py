"""Figures: one style, PNG and SVG, intervals over seeds, published curves dashed."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from baselines import plots
from baselines.config import Config
from baselines.plots import COLORS
from baselines.presets import PRESETS
from baselines.published import published
from baselines.statistics import Estimate, estimate


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Return a list that gets each figure when it is written."""
    figures: list[Figure] = []
    savefig = Figure.savefig

    def keep(figure: Figure, *given: Any, **named: Any) -> None:
        figures.append(figure)
        savefig(figure, *given, **named)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def rows_of(seeds: range, updates: int = 10) -> list[dict[str, Any]]:
    return [
        {"seed": seed, "update": update, "steps": update * 1_000_000, "seconds": 60.0 * update, "episodes": 4}
        | {"normalized_return": 0.1 * seed, "return": 2.0}
        | ({"held_out_normalized_return": 0.2 * seed, "held_out_return": 1.0} if update == updates else {})
        for update in range(1, updates + 1)
        for seed in seeds
    ]


def test_a_figure_is_written_as_png_and_svg_and_always_alike(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with plots.drawing(tmp_path / name, 1, 1, (2, 2)) as ((axis,),):
            axis.plot([0, 1], [0, 1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg", "b.png", "b.svg"]
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_an_error_while_drawing_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), plots.drawing(tmp_path / "a", 1, 1, (2, 2)):
        _ = 1 / 0
    assert not list(tmp_path.iterdir())


def test_the_band_of_a_line_is_its_interval(tmp_path: Path) -> None:
    with plots.drawing(tmp_path / "a", 1, 1, (2, 2)) as ((axis,),):
        plots.draw_estimates(axis, np.asarray([0.0, 1.0]), [Estimate(2, 1, 4), Estimate(3, 2, 5)], COLORS[0], "ours")
        corners = axis.collections[0].get_paths()[0].vertices.tolist()
        assert axis.lines[0].get_ydata().tolist() == [2, 3]
    assert all(corner in corners for corner in ([0, 1], [0, 4], [1, 2], [1, 5]))


def test_the_seeds_of_a_run_are_one_line_with_an_interval(tmp_path: Path, drawn: list[Figure]) -> None:
    config = dataclasses.replace(PRESETS["fast/mmbg-gru"], num_seeds=3)
    plots.draw_run(tmp_path / "curve", config, rows_of(range(1, 4)))
    above, below = drawn[0].axes
    ours, held_out, theirs = above.lines
    expected = estimate(np.asarray([0.1, 0.2, 0.3]), resamples=2_000)
    np.testing.assert_allclose(ours.get_ydata(), expected.value)
    band = above.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((expected.low, expected.high))
    assert held_out.get_xydata().tolist() == [[10.0, pytest.approx(0.4)]]
    assert [line.get_label() for line in above.lines] == [
        "training levels, 3 seeds",
        "held-out levels",
        "GRU, published, held out",
    ]
    assert theirs.get_linestyle() == "--"
    assert below.get_xlabel() == "environment steps (millions)"
    assert (above.get_ylabel(), below.get_ylabel()) == ("normalized return", "return")


def test_a_published_curve_ends_after_twice_our_steps(tmp_path: Path) -> None:
    steps, values = published()["MMActGrid"]["GRU"]
    with plots.drawing(tmp_path / "a", 1, 1, (2, 2)) as ((axis,),):
        plots.draw_published(axis, "MMActGrid", {"GRU": COLORS[3]}, steps[2] / 2)
        plots.draw_published(axis, "no task", {"GRU": COLORS[3]}, 1.0)
        (line,) = axis.lines
        assert line.get_xydata().tolist() == [list(pair) for pair in zip(steps[:3], values[:3], strict=True)]
        assert line.get_color() == COLORS[3]


@pytest.mark.parametrize("rows", [[], [{**row, "episodes": 0, "normalized_return": None} for row in rows_of(range(1))]])
def test_a_run_that_has_ended_no_episode_has_a_figure(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    plots.draw_run(tmp_path / "curve", Config(env="Sudoku-v0"), rows[:-1])
    assert (tmp_path / "curve.png").exists()


def test_colors_differ_for_readers_without_red_or_green_cones() -> None:
    """Compare the colors as dichromats see them, by the matrices of Viénot, Brettel and Mollon (1999)."""
    rgb = np.asarray([[int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)] for color in COLORS])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    for red, green, rest in ((0.11238, 0.88762, 0.00401), (0.29275, 0.70725, -0.02234)):
        seen = linear @ np.asarray([[red, green, 0], [red, green, 0], [rest, -rest, 1]]).T
        seen = np.clip(seen, 0, 1) ** (1 / 2.2)
        distances = np.linalg.norm(seen[:, None] - seen[None], axis=-1)[np.triu_indices(len(COLORS), 1)]
        assert distances.min() > 0.1
