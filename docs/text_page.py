"""Write the table of games and the transcripts into their pages: `python -m docs.text_page`.

A page has `<!-- games -->` or `<!-- transcript NAME -->`, each with an `<!-- end -->`; everything in between is
generated from the text interfaces.
"""

import dataclasses
import io
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxgym import text
from jaxgym.errors import grouped
from jaxgym.human.talk import TerminalSession

DOCS = Path(__file__).parent
PAGES = (DOCS / "reference/text_interface.md", *sorted((DOCS / "environments").glob("*.md")))
REGION = re.compile(r"(<!-- (games|transcript \w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Play:
    """Episode of a transcript.

    Attributes:
        seed: Seed of the level.
        replies: Replies, in order.
        options: Options of `jaxgym.text.make`.
    """

    seed: int
    replies: tuple[str, ...]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])


PLAYS = {
    "mortar_mayhem_grid": Play(
        0,
        ("<action>wait 3</action>", "<think>Up, I face it.</think>\n<action>forward, wait</action>", "Wait."),
        {"command_count": [1], "explosion_delay": [2], "actions_per_turn": 3},
    ),
    "endless_mortar_mayhem": Play(
        0,
        ("<action>wait 4</action>", "<action>up-left 5</action>", "<action>wait 8</action>", "<action>wait 8</action>"),
    ),
    "mystery_path": Play(
        2,
        ("<action>up 3</action>", '{"action": "wait"}', "<action>jump</action>", "Action: left 4"),
        {"show_goal": True},
    ),
    "endless_mystery_path": Play(0, ("<action>up 4</action>", "<action>right 4</action>", "<action>right 4</action>")),
    "searing_spotlights": Play(1, ("<action>wait 8</action>", "<action>up-left 2, up</action>")),
    "babyai_go_to_local_s5_n2": Play(
        1, ("<action>turn right</action>", "<action>turn left, forward, turn right, forward</action>")
    ),
    "t_maze": Play(
        0, ("<action>right</action>", "<action>right</action>", "<action>up</action>"), {"corridor_length": 2}
    ),
    "memory_cards": Play(0, ("<action>2</action>", "<action>4</action>"), {"num_pairs": 2}),
    "numpad": Play(0, ("<action>up</action>", "<action>right</action>", "<action>down</action>")),
    "endless_t_maze": Play(
        0, ("<action>forward</action>", "<action>right</action>"), {"max_length": 1, "num_corridors": 2}
    ),
    "visual_match": Play(0, ("<action>north</action>", "<action>north, east 2</action>"), {"explore_frames": 1}),
    "boss_fight": Play(0, ("<action>right, fire</action>", "<action>up-left</action>")),
    "ballet": Play(
        0, ("<action>up</action>", "<action>up 16</action>"), {"num_dancers": 1, "delay": 2, "actions_per_turn": 16}
    ),
    "color_cubes": Play(0, ("<action>up</action>", "<action>left</action>"), {"preset": "extreme"}),
    "key_to_door": Play(
        0,
        ("<action>north</action>", "<action>north, east 2</action>"),
        {"explore_frames": 9, "apple_frames": 1},
    ),
    "textcraft": Play(0, ("<action>get 3 flax</action>", "<action>inventory</action>")),
}


def games_table() -> str:
    """Return a Markdown table of the games with a text interface."""
    lines = ["| id | short name | options of the text interface |", "| --- | --- | --- |"]
    names = text.text_envs()
    short_names = {env_id: short_name for short_name, env_id in names.items()}
    for group, members in grouped(names.values()).items():
        options = text.text_spec_of(members[0])[1].options
        listed = "; ".join(f"`{name}={option.default!r}`: {option.help}" for name, option in options.items())
        short_name = f"`{short_names[members[0]]}`"
        if len(members) == 1:
            lines.append(f"| `{group}` | {short_name} | {listed} |")
        else:
            lines.append(f"| `{group}` ({len(members)} ids) | such as {short_name} for `{members[0]}` | {listed} |")
    return "\n".join(lines) + "\n"


def transcript(short_name: str) -> str:
    """Return a transcript of a game in Markdown."""
    play = PLAYS[short_name]
    said = io.StringIO()
    TerminalSession(short_name, dict(play.options)).play(play.seed, play.replies, said, prompt="\0")
    # Each prompt marks the position of a reply.
    first, *rest = said.getvalue().split("\0")
    out = [first]
    for reply, answer in zip(play.replies, rest, strict=False):
        out.append("".join(f"> {line}\n" for line in reply.splitlines()) + "\n" + answer)
    options = [f"{name}={value}".replace(", ", ",") for name, value in play.options.items()]
    command = shlex.join(["jaxgym", "talk", short_name, *options, "--seed", str(play.seed)])
    return f"`{command}`\n\n```text\n{''.join(out).rstrip()}\n```\n"


def content(name: str) -> str:
    """Return the content of a region of a page."""
    return games_table() if name == "games" else transcript(name.removeprefix("transcript "))


def main() -> None:
    """Rewrite the pages."""
    for page in PAGES:
        page.write_text(REGION.sub(lambda found: found[1] + content(found[2]) + found[4], page.read_text()))


if __name__ == "__main__":
    main()
