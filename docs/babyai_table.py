"""Write the table of BabyAI's ids into their page: `python -m docs.babyai_table`.

The page has `<!-- ids -->`, the table, and `<!-- end -->`; everything in between is generated from the level classes.
"""

import inspect
import re
from pathlib import Path

from jaxgym import levels
from jaxgym.envs.babyai import SPECS
from jaxgym.envs.babyai.mission import text_of

PAGE = Path(__file__).parent / "environments/babyai.md"
REGION = re.compile(r"(<!-- ids -->\n)(.*?)(<!-- end -->)", re.DOTALL)

TASKS = {
    "GoToRedBallGrey": "go to the red ball; all other objects are gray",
    "GoToRedBallNoDists": "go to the red ball, the only object",
    "GoToObjMaze": "go to the only object of a maze",
    "GoToSeq": "go to one to four things",
    "OpenDoorColor": "open a door of the middle room, given by its color",
    "OpenDoorLoc": "open a door of the middle room, given by its location",
    "OpenRedBlueDoors": "open the red door on the left, then the blue door on the right",
    "PickupLoc": "pick up an object, which can be given by its location",
    "Synth": "one random instruction of any kind, without locations",
    "SynthLoc": "one random instruction of any kind, with locations",
    "SynthSeq": "one to four random instructions of any kind, with locations",
    "MiniBossLevel": "as `BossLevel`, in a smaller maze",
    "BossLevel": "as `SynthSeq`; instructions can also name things in a locked room",
    "BossLevelNoUnlock": "as `SynthSeq`, without locked doors",
}
"""Tasks of ids that share a function with others, by the start of the id; the longest start counts."""


def task_of(env_id: str, draw: object) -> str:
    """Return what the agent must do, from `TASKS` or else from the docstring of the level class."""
    name = env_id.removeprefix("BabyAI-")
    start = max((start for start in TASKS if name.startswith(start)), key=len, default=None)
    if start is not None:
        return TASKS[start]
    task = (inspect.getdoc(draw) or "").partition(".")[0]
    return f"{task[:1].lower()}{task[1:]}"


def ids_table() -> str:
    """Return a Markdown table of the ids."""
    lines = [
        "| id | the agent must | rooms (columns × rows) | grid (width × height) | `max_steps` | mission of seed 0 |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for env_id, spec in SPECS.items():
        level_class = spec.fixed["level_class"]
        rooms, draw = level_class.rooms, getattr(level_class.draw, "func", level_class.draw)
        limit = f"{level_class.steps} · n" if level_class.is_per_unit else f"{level_class.steps}"
        mission = text_of(levels.original(env_id, [0]).mission.tokens[0])
        cells = (
            f"`{env_id}`",
            task_of(env_id, draw),
            f"{rooms.columns} × {rooms.rows}",
            f"{rooms.width} × {rooms.height}",
            limit,
            mission,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(REGION.sub(lambda found: found[1] + ids_table() + found[3], PAGE.read_text()))


if __name__ == "__main__":
    main()
