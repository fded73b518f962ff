"""Missing packages of an extra, and the command that installs them."""

import re
import sys
from collections.abc import Sequence
from importlib import metadata

_NAME = re.compile(r"[\w.-]+")
_OWN = re.compile(r"jaxgym\[(.*)\]")


def requirements(extra: str) -> list[str]:
    """Return the distributions that an extra of this package requires on this system, sorted."""
    found = set[str]()
    for line in metadata.requires("jaxgym") or ():
        requirement, _, marker = line.replace('"', "'").partition(";")
        is_elsewhere = "sys_platform != 'win32'" in marker and sys.platform == "win32"
        if f"extra == '{extra}'" not in marker or is_elsewhere:
            continue
        name, own = _NAME.match(requirement), _OWN.match(requirement)
        if own:
            found.update(name for extra_inside in own[1].split(",") for name in requirements(extra_inside))
        elif name:
            found.add(name[0])
    return sorted(found)


def missing(extra: str, module: str | None = None, *, beside: Sequence[str] = ()) -> str:
    """Return an error message that names every missing package of an extra and the command that installs them.

    Args:
        extra: An extra of this package.
        module: The module whose import failed; it is named if its package is not among the requirements.
        beside: Distributions that are required in addition to the extra.
    """
    try:
        names = [name for name in (*beside, *requirements(extra)) if not _is_installed(name)]
    except metadata.PackageNotFoundError:  # a checkout on the path, which is not installed
        names = []
    quoted = " ".join((*beside, f'"jaxgym[{extra}]"'))
    return f"missing packages: {', '.join(names or [module or extra])}. Install them with: pip install {quoted}"


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
