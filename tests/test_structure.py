"""Structure of the packages: no import cycle, no hidden import, and one meaning for each class name.

Every import counts: at module level, inside a function, under `TYPE_CHECKING`, and through `import_module`. Each rule
is shown to catch a planted violation.
"""

import ast
import collections
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

Trees = Mapping[str, ast.Module]
"""Syntax trees by name of module."""

LAZY_NAMES = {"jaxgym"}
"""Modules with a module-level `__getattr__`."""

COMPUTED_IMPORTS = {"jaxgym", "jaxgym.registry", "baselines.memories"}
"""Modules that import a module whose name is not a constant: public names, entry points, and memory cells."""

NAMES_MODULES = r"\b(import_module_of|(jaxgym|registration|text|catalog)\.(make|spec_of|presets))$"
"""Functions that import the module of a name. For names from requests, servers have `make_registered` and `load`."""

ONE_PER_GAME = {"State", "Params", "Level", "Scene", "Visible"}
"""Class names that each package of a game may define once."""


@functools.cache
def trees(*packages: str) -> Trees:
    found = dict[str, ast.Module]()
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name] = ast.parse(path.read_text())
    return found


def imported(node: ast.AST) -> Iterator[str]:
    """Return the names that a node imports, if they are constant; a name may be a module or inside of one."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module), names=names):
            yield from (f"{module}.{alias.name}" for alias in names)
        case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]) if _is_import(function):
            yield name


def _is_import(function: ast.expr) -> bool:
    return ast.unparse(function).rpartition(".")[2] in {"import_module", "__import__"}


def graph(modules: Trees) -> dict[str, set[str]]:
    """Return the modules that each module imports, anywhere in its file."""
    arrows = {name: set[str]() for name in modules}
    for name, tree in modules.items():
        for node in ast.walk(tree):
            for full in imported(node):
                target = next((part for part in (full, full.rpartition(".")[0]) if part in modules), None)
                if target is not None and target != name:
                    arrows[name].add(target)
    return arrows


def cycles(arrows: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that reach each other."""
    reach = {name: _reachable(name, arrows) for name in arrows}
    groups = {frozenset(other for other in reach[name] if name in reach[other]) for name in arrows}
    return sorted(sorted(group) for group in groups if group)


def _reachable(start: str, arrows: Mapping[str, set[str]]) -> set[str]:
    reached, waiting = set[str](), [start]
    while waiting:
        new = arrows[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def computed_imports(modules: Trees) -> list[str]:
    """Return places outside of `COMPUTED_IMPORTS` that import a module whose name is not constant."""
    return [
        f"{name}:{node.lineno}"
        for name, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _is_import(node.func) and not list(imported(node))
        if name not in COMPUTED_IMPORTS
    ]


def given_names(modules: Trees) -> list[str]:
    """Return places in `jaxgym.serve` that import the module of a name such as `"module:MyGame-v0"`."""
    return [
        f"{module}:{node.lineno}"
        for module, tree in modules.items()
        if module.startswith("jaxgym.serve.") and module != "jaxgym.serve.command"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name) and re.search(NAMES_MODULES, ast.unparse(node))
    ]


def lazy_modules(modules: Trees) -> set[str]:
    """Return modules that define names on first use."""
    return {
        name
        for name, tree in modules.items()
        if any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body)
    }


def repeated_classes(modules: Trees) -> dict[str, list[str]]:
    """Return class names with more than one definition, and the modules that define them."""
    homes = collections.defaultdict[tuple[str, str], list[str]](list)
    for module, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name, _game_of(module) if node.name in ONE_PER_GAME else ""].append(module)
    return {name: found for (name, _), found in homes.items() if len(found) > 1}


def _game_of(module: str) -> str:
    return ".".join(module.split(".")[:3]) if module.startswith("jaxgym.envs.") else "jaxgym"


def test_no_modules_import_each_other() -> None:
    assert not cycles(graph(trees("jaxgym", "baselines")))


def test_every_imported_module_is_named_by_a_constant() -> None:
    assert not computed_imports(trees("jaxgym", "baselines"))


def test_a_server_imports_no_module_that_a_request_names() -> None:
    assert not given_names(trees("jaxgym"))
    for source in ("text.make(name)", "registration.spec_of(name)", "registry.import_module_of(name)"):
        tree = ast.parse(source)
        assert given_names({"jaxgym.serve.planted": tree, "jaxgym.serve.command": tree}) == ["jaxgym.serve.planted:1"]


def test_lazy_names_are_those_of_the_package_only() -> None:
    assert lazy_modules(trees("jaxgym", "baselines")) == LAZY_NAMES


def test_a_class_name_has_one_definition() -> None:
    assert not repeated_classes(trees("jaxgym", "baselines"))


@pytest.mark.parametrize(
    "source",
    [
        "from jaxgym import levels",
        "from jaxgym.levels import draw",
        "import jaxgym.levels",
        "def f():\n    from jaxgym import levels",
        "if TYPE_CHECKING:\n    from jaxgym.levels import draw",
        "importlib.import_module('jaxgym.levels')",
        "def f():\n    return __import__('jaxgym.levels')",
    ],
)
def test_a_cycle_is_noticed_wherever_the_import_is(source: str) -> None:
    planted = {"jaxgym.registry": source, "jaxgym.levels": "from jaxgym import registry", "jaxgym": ""}
    modules = {name: ast.parse(text) for name, text in planted.items()}
    assert cycles(graph(modules)) == [["jaxgym.levels", "jaxgym.registry"]]
    assert not cycles(graph({**modules, "jaxgym.levels": ast.parse("")}))


def test_a_computed_import_and_a_lazy_name_are_noticed() -> None:
    tree = ast.parse("def __getattr__(name):\n    return importlib.import_module(f'jaxgym.{name}')")
    assert computed_imports({"jaxgym.planted": tree}) == ["jaxgym.planted:2"]
    assert lazy_modules({"jaxgym.planted": tree, "jaxgym.levels": ast.parse("")}) == {"jaxgym.planted"}


@pytest.mark.parametrize(
    ("planted", "repeated"),
    [
        ({"jaxgym.a": "class Agent: ...", "jaxgym.b": "class Agent: ..."}, {"Agent"}),
        ({"jaxgym.envs.a.game": "class Level: ...", "jaxgym.envs.b.game": "class Level: ..."}, set[str]()),
        ({"jaxgym.envs.a.game": "class Level: ...", "jaxgym.envs.a.endless": "class Level: ..."}, {"Level"}),
        ({"jaxgym.envs.a.game": "class Place: ...", "jaxgym.envs.b.game": "class Place: ..."}, {"Place"}),
    ],
)
def test_a_repeated_class_name_is_noticed(planted: dict[str, str], repeated: set[str]) -> None:
    assert set(repeated_classes({name: ast.parse(source) for name, source in planted.items()})) == repeated
