"""Run folder of GRPO, with its own settings, vocabulary and curve."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from baselines import plots
from baselines.errors import RunError
from baselines.grpo.settings import Settings, differences, read_settings
from baselines.grpo.tokens import Tokenizer
from baselines.plots import COLORS, MILLION
from baselines.runs import Row, RunFolder, reject_changes, writing

_VOCABULARY = "vocabulary.json"


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

    @classmethod
    def go_on(cls, path: Path, settings: Settings) -> Self:
        """Open the folder of a run that continues under its own settings.

        Raises:
            RunError: if there is no run, or the settings would change what it learns.
        """
        reject_changes(path, differences(settings, read_settings(path)))
        return cls(path, settings, writes=True)

    def tokenizer(self) -> Tokenizer:
        """Read the tokenizer of the run.

        Raises:
            RunError: if its vocabulary cannot be read.
        """
        try:
            return Tokenizer(json.loads((self.path / _VOCABULARY).read_text()))
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read {self.path / _VOCABULARY}. Start a new run with another --name.") from error

    def keep_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Write the vocabulary.

        Raises:
            RunError: if it cannot be written.
        """
        self.write_json(_VOCABULARY, list(tokenizer.words))

    def draw_curve(self) -> None:
        """Draw the success in training and on held-out levels, and the episode length, over turns, as `curve` files.

        Raises:
            RunError: if they cannot be written.
        """
        path = self.path / "curve"
        with writing(path), plots.drawing(path, 2, 1, (5, 5), sharex=True) as ((above,), (below,)):
            draw_rows(above, below, self.rows())
            above.set_title(self.path.name)
