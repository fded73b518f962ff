"""Run folder of GRPO, with its own settings, vocabulary and curve."""

import json
from pathlib import Path
from typing import Any, Self, cast

from baselines.errors import RunError
from baselines.grpo.settings import Settings, differences, read_settings
from baselines.grpo.tokens import Tokenizer
from baselines.runs import RunFolder

_VOCABULARY = "vocabulary.json"


class GrpoFolder(RunFolder):
    """Files of one run under `path`."""

    def __init__(self, path: Path, settings: Settings, *, writes: bool = False) -> None:
        """Open a run; use `begin` or `go_on` to write it."""
        # The base class reads only `keep_checkpoints`, which both kinds of settings have.
        super().__init__(path, cast(Any, settings), writes=writes)

    @classmethod
    def begin(cls, path: Path, settings: Settings) -> Self:
        """Create a folder and write the settings.

        Raises:
            RunError: if it holds a run already or cannot be written.
        """
        return cast(Self, cls.create(path, cast(Any, settings)))

    @classmethod
    def go_on(cls, path: Path, settings: Settings) -> Self:
        """Open the folder of a run that continues under its own settings.

        Raises:
            RunError: if there is no run, or the settings would change what it learns.
        """
        changed = differences(settings, read_settings(path))
        if changed:
            raise RunError(
                f"{path}: expected the settings of the run, got other values of {', '.join(changed)}. "
                "Resume with the same ones, or choose another --name."
            )
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

    def write_text(self, name: str, text: str) -> None:
        """Write a small text file.

        Raises:
            RunError: if it cannot be written.
        """
        try:
            (self.path / name).write_text(text)
        except OSError as error:
            raise RunError(f"cannot write {self.path / name} ({error.strerror}). Free disk space.") from error

    def draw_curve(self) -> None:
        """Draw the success in training and on held-out levels, and the episode length, over turns, as curve.png.

        Raises:
            RunError: if it cannot be written.
        """
        from matplotlib.figure import Figure  # without pyplot: no window system, no global state

        figure = Figure(figsize=(7, 5), layout="constrained")
        above, below = figure.subplots(2, sharex=True)
        rows = self.rows()
        played = [row for row in rows if row["update"]]
        evaluated = [row for row in rows if row["held_out"] is not None]
        above.plot([row["turns"] for row in played], [row["success"] for row in played], linewidth=1, label="training")
        places, results = [row["turns"] for row in evaluated], [row["held_out"] for row in evaluated]
        above.plot(places, results, marker="o", markersize=3, label="held-out levels")
        above.set(ylabel="success", ylim=(0, 1), title=self.path.name)
        above.legend(loc="lower right")
        below.plot([row["turns"] for row in played], [row["length"] for row in played], linewidth=1)
        below.set(ylabel="turns of an episode", xlabel="turns played in training")
        for axis in (above, below):
            axis.grid(alpha=0.3)
        path = self.path / "curve.png"
        try:
            figure.savefig(path.with_suffix(".tmp"), format="png", dpi=120)
            path.with_suffix(".tmp").replace(path)
        except OSError as error:
            raise RunError(f"cannot write {path} ({error.strerror}). Free disk space.") from error
