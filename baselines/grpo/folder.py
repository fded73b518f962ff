"""Run folder of GRPO, with its own settings, vocabulary and curve."""

import json
from collections.abc import Sequence
from typing import Any

from baselines import plots
from baselines.errors import RunError
from baselines.grpo.tokens import Tokenizer
from baselines.plots import COLORS, MILLION
from baselines.runs import Row, RunFolder, read_rows, writing

VOCABULARY = "vocabulary.json"


def draw_rows(above: Any, below: Any, rows: Sequence[Row]) -> None:
    """Draw the success and the episode length of a run over turns, each in its own axes."""
    played = [row for row in rows if row["update"] and row.get("success") is not None]
    evaluated = [row for row in rows if row["held_out"] is not None]
    turns = [row["turns"] / MILLION for row in played]
    above.plot(turns, [row["success"] for row in played], color=COLORS[0], label="training levels")
    places = [row["turns"] / MILLION for row in evaluated]
    above.plot(places, [row["held_out"] for row in evaluated], "o:", color=COLORS[1], label="held-out levels")
    above.set(ylabel="success rate", ylim=(0, 1.03))
    above.legend(loc="lower right")
    below.plot(turns, [row["length"] for row in played], color=COLORS[0])
    below.set(ylabel="episode length (turns)", xlabel="turns played in training (millions)")


class GrpoFolder(RunFolder):
    """Files of one run under `path`."""

    def tokenizer(self) -> Tokenizer:
        """Read the tokenizer of the run.

        Raises:
            RunError: if its vocabulary cannot be read.
        """
        try:
            return Tokenizer(json.loads((self.path / VOCABULARY).read_text()))
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read {self.path / VOCABULARY}. Start a new run with another --name.") from error

    def draw_curve(self) -> None:
        """Draw the success in training and on held-out levels, and the episode length, over turns, as `curve` files.

        Raises:
            RunError: if they cannot be written.
        """
        path = self.path / "curve"
        with writing(path), plots.drawing(path, 2, 1, (5, 5), sharex=True) as ((above,), (below,)):
            draw_rows(above, below, read_rows(self.log))
            above.set_title(self.path.name)
