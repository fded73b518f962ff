"""Write the presets of environments into their page: `python -m docs.presets_table`.

The page has `<!-- presets -->`, a table per id, and `<!-- end -->`; everything in between is generated from the
declared presets.
"""

import re
from pathlib import Path

import jaxgym

PAGE = Path(__file__).parent / "reference/presets.md"
REGION = re.compile(r"(<!-- presets -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def presets_tables() -> str:
    """Return Markdown tables of the presets of every id that has presets."""
    parts = []
    for env_id in jaxgym.registered_envs():
        presets = jaxgym.presets(env_id)
        if not presets:
            continue
        lines = ["| preset | what it is | options | source |", "| --- | --- | --- | --- |"]
        for name, preset in presets.items():
            options = ", ".join(f"`{option}={value!r}`" for option, value in preset.options.items())
            lines.append(f"| `{name}` | {preset.help} | {options} | {preset.source} |")
        parts.append(f"### {env_id}\n\n" + "\n".join(lines) + "\n\n")
    return "\n" + "".join(parts)


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(REGION.sub(lambda found: found[1] + presets_tables() + found[3], PAGE.read_text()))


if __name__ == "__main__":
    main()
