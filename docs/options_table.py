"""Write the options of environments into their pages: `python -m docs.options_table`.

A page has `<!-- options: ID ID ... -->`, the table, and `<!-- end -->`; everything in between is generated from the
declared options.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import jaxgym
from jaxgym.options import Option
from jaxgym.wrappers import spotlight_perturbation

WRAPPERS = Path(__file__).parent / "reference/wrappers.md"
WRAPPERS_REGION = re.compile(r"(<!-- perturbation options -->\n)(.*?)(<!-- end -->)", re.DOTALL)
REGION = re.compile(r"(<!-- options: ([^>]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def options_table(env_ids: Sequence[str]) -> str:
    """Return a Markdown table of the options of some environments, with a column of defaults for each."""
    return _table({env_id: jaxgym.spec_of(env_id).options for env_id in env_ids})


def perturbation_table() -> str:
    """Return a Markdown table of the options of `SpotlightPerturbation`."""
    return _table({"SpotlightPerturbation": spotlight_perturbation.OPTIONS})


def _table(specs: Mapping[str, Mapping[str, Option]]) -> str:
    env_ids = tuple(specs)
    names = list(dict.fromkeys(name for options in specs.values() for name in options))
    lines = [
        _row(["option", "meaning", "values", *(f"`{env_id}`" for env_id in env_ids)]),
        _row(["---"] * (3 + len(env_ids))),
    ]
    for name in names:
        found = {env_id: options[name] for env_id, options in specs.items() if name in options}
        meanings = _told({env_id: option.help for env_id, option in found.items()})
        values = _told({env_id: option.allowed.partition(", such as")[0] for env_id, option in found.items()})
        defaults = [f"`{found[env_id].default!r}`" if env_id in found else "–" for env_id in env_ids]
        lines.append(_row([f"`{name}`", meanings, values, *defaults]))
    return "\n".join(lines) + "\n"


def _told(texts: Mapping[str, str]) -> str:
    """Return the text of all ids; if they differ, each text follows its ids."""
    ids = {text: [f"`{env_id}`" for env_id in texts if texts[env_id] == text] for text in texts.values()}
    return next(iter(ids)) if len(ids) == 1 else "; ".join(f"{', '.join(ids[text])}: {text}" for text in ids)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Rewrite every page."""
    for page in (Path(__file__).parent / "environments").glob("*.md"):
        text = page.read_text()
        page.write_text(REGION.sub(lambda found: found[1] + options_table(found[2].split()) + found[4], text))
    text = WRAPPERS.read_text()
    WRAPPERS.write_text(WRAPPERS_REGION.sub(lambda found: found[1] + perturbation_table() + found[3], text))


if __name__ == "__main__":
    main()
