"""Run folder of GRPO, with its own settings, vocabulary and curve."""

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tqdm import tqdm

from baselines import plots
from baselines.errors import RunError
from baselines.grpo.learner import LearnerState
from baselines.grpo.settings import Settings
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


def run_updates(
    folder: GrpoFolder,
    settings: Settings,
    state: LearnerState,
    row: Row,
    begin: float,
    update: Callable[[LearnerState, int], tuple[LearnerState, Row]],
    held_out: Callable[[Any], float],
) -> LearnerState:
    """Make the updates that are left, log and save them; return the last state.

    Args:
        folder: folder of the run.
        settings: settings of the run.
        state: state after the last update.
        row: row of the log for this update.
        begin: `time.monotonic()` at the start of the process.
        update: function of the state and the number of updates done that returns the next state and its row.
        held_out: function of the parameters that returns the success on held-out levels.
    """
    done, before, turns = row["update"], row["seconds"] if row["update"] else 0.0, row["turns"]
    limit = begin + 60 * settings.minutes if settings.minutes > 0 else math.inf
    with tqdm(
        total=settings.updates,
        initial=done,
        desc="learning",
        unit=" updates",
        dynamic_ncols=True,
        mininterval=0.1 if sys.stderr.isatty() else 10,  # in seconds; a log file needs few lines
    ) as bar:
        is_last = done >= settings.updates or time.monotonic() > limit
        while not is_last:
            state, row = update(state, done)
            done += 1
            turns += row["turns"]
            is_last = done == settings.updates or time.monotonic() > limit
            if done % settings.eval_updates == 0 or is_last:
                row["held_out"] = held_out(state.params)
            row |= {"update": done, "turns": turns, "seconds": round(before + time.monotonic() - begin, 1)}
            folder.append([row])
            if done % settings.checkpoint_updates == 0 or is_last:
                folder.save(state, done)
                folder.draw_curve()
            shown = {name: f"{row[name]:.3f}" for name in ("success", "entropy")}
            bar.set_postfix(shown, refresh=False)
            bar.update()
    return state
