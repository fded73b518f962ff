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


def ids_table() -> str:
    """Return a Markdown table of the ids."""
    lines = [
        "| id | the agent must | rooms | grid | `max_steps` | mission of seed 0 |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for env_id, spec in SPECS.items():
        level_class = spec.fixed["level_class"]
        rooms, draw = level_class.rooms, getattr(level_class.draw, "func", level_class.draw)
        task = (inspect.getdoc(draw) or "").partition(".")[0]
        limit = f"{level_class.steps} · n" if level_class.is_per_unit else f"{level_class.steps}"
        mission = text_of(levels.original(env_id, [0]).mission.tokens[0])
        cells = (
            f"`{env_id}`",
            f"{task[:1].lower()}{task[1:]}",
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
