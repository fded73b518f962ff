"""Pages of the documentation: their links, their place in the site, and the names in the API reference."""

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if DOCS / "_build" not in page.parents)
LINKED = [*sorted(ROOT.glob("*.md")), *PAGES]
API = sorted((DOCS / "reference/api").glob("*.md"))

DIRECTIVE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
AUTO = re.compile(r"^\.\. auto(\w+):: ([\w.]+)\n((?:   :.*\n)*)", re.MULTILINE)
BLOCK = re.compile(r"^```py(?:thon)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)

PUBLIC = (
    *("jaxgym", "jaxgym.demos", "jaxgym.errors", "jaxgym.levels", "jaxgym.options"),
    *("jaxgym.registration", "jaxgym.spaces"),
    *("jaxgym.testing", "jaxgym.text", "jaxgym.wrappers"),
    *("jaxgym.serve.openenv.client", "jaxgym.serve.pool", "jaxgym.serve.rollout", "jaxgym.serve.swift"),
    *("jaxgym.serve.evaluation", "jaxgym.serve.trainers.episode", "jaxgym.serve.trl", "baselines", "baselines.errors"),
)
HELPERS = {f"jaxgym.errors.{name}" for name in ("grouped", "listed", "nearest", "shown")}
"""Functions that format messages, used by several modules of the package."""


@functools.cache
def parsed(page: Path) -> tuple[set[str], set[str]]:
    """Return the anchors of a page as GitHub and MyST make them, and the targets of its links and images."""
    anchors, targets, tokens = list[str](), set[str](), MarkdownIt().parse(page.read_text())
    for before, token in zip([None, *tokens], tokens, strict=False):
        if before is not None and before.type == "heading_open":
            text = "".join(part.content for part in token.children or () if part.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            anchors.append(slug if slug not in anchors else f"{slug}-{anchors.count(slug)}")
        for part in token.children or ():
            targets |= {str(part.attrs[name]) for name in ("href", "src") if name in part.attrs}
            targets |= set(re.findall(r'src="([^"]+)"', part.content if part.type == "html_inline" else ""))
    return set(anchors), targets


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in parsed(page)[1]:
        path, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in parsed(file)[0]):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_and_anchor_resolves(page: Path) -> None:
    assert not broken_links(page)


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    other.write_text("# `One` of two\n")
    page.write_text("[a](other.md#one-of-two) [b](other.md#two) [c](missing.md) [d](#here)\n\n# Here\n")
    assert sorted(broken_links(page)) == ["missing.md", "other.md#two"]


def children(page: Path) -> Iterator[Path]:
    for block in DIRECTIVE.findall(page.read_text()):
        for line in block.splitlines():
            if line and not line.startswith(":"):
                target = line.rpartition("<")[2].removesuffix(">")  # of `Title <page>`
                yield from (found.resolve() for found in page.parent.glob(f"{target}.md"))


def test_every_page_is_in_the_table_of_contents() -> None:
    reached, new = set[Path](), {DOCS / "index.md"}
    while new:
        reached |= new
        new = {child for page in new for child in children(page)} - reached
    assert reached == set(PAGES)


@pytest.mark.parametrize("page", sorted(DOCS.glob("*/**/index.md")), ids=lambda page: page.parent.name)
def test_a_section_links_to_its_pages(page: Path) -> None:
    linked = {(page.parent / target.partition("#")[0]).resolve() for target in parsed(page)[1]}
    assert set(page.parent.glob("*.md")) - {page} <= linked


@pytest.mark.parametrize("page", sorted(DOCS.glob("environments/[!i]*.md")), ids=lambda page: page.stem)
def test_the_page_of_an_environment_is_complete(page: Path) -> None:
    text = page.read_text()
    sections = "Observation", "Action", "Start", "Reward", "End", "Info", "Options", "As text", "Source and versions"
    assert [name for name in sections if f"\n## {name}\n" not in text] == []
    assert "\n## Differences from " in text
    assert re.search(r"^!\[.{20,}\]\(../images/\w+\.\w+\)$", text, re.MULTILINE), "a picture with a description"
    assert "\n```text\n" in text, "a transcript"


def find(name: str) -> Any:
    """Return the object of a dotted name."""
    for count in range(name.count(".") + 1, 0, -1):
        parts = name.split(".")
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        return functools.reduce(getattr, parts[count:], found)
    raise AssertionError(name)


def public_names(module: str) -> set[str]:
    """Return the names in `__all__`, or the classes and functions that the module defines."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None) or {
        name
        for name, value in vars(found).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module
    }
    return {f"{module}.{name}" for name in names} - HELPERS


@functools.cache
def documented() -> tuple[set[str], list[Any]]:
    """Return the names in the API reference and their objects."""
    names = set[str]()
    for kind, name, options in AUTO.findall("".join(page.read_text() for page in API)):
        excluded = re.findall(r":exclude-members: (.*)", options)
        left_out = {f"{name}.{each}" for each in (excluded[0].split(", ") if excluded else ())}
        names |= public_names(name) - left_out if kind == "module" else {name}
    return names, [find(name) for name in names]


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_api_reference(module: str) -> None:
    names, objects = documented()
    missing = {name for name in public_names(module) - names if not any(find(name) is each for each in objects)}
    assert not {name for name in missing if not inspect.ismodule(find(name))}


def imported(page: Path) -> Iterator[str]:
    """Return the names of jaxgym and baselines that the code of a page imports from a module."""
    for block in BLOCK.findall(page.read_text()):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("jaxgym", "baselines"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_name_that_a_page_imports_is_in_the_api_reference() -> None:
    names, objects = documented()
    missing = set[str]()
    for name in {name for page in LINKED for name in imported(page)} - names:
        found = find(name)
        is_own = str(getattr(found, "__module__", "jaxgym")).startswith(("jaxgym", "baselines"))
        if is_own and not inspect.ismodule(found) and not any(found is each for each in objects):
            missing.add(name)
    assert not missing
