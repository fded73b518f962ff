"""Project rules that a program can check; each syntax rule has an example that it rejects.

    path of a file + its syntax tree  ->  rule  ->  the violations, one line each

Paths are relative to the root of the repository, with forward slashes.
"""

import ast
import dataclasses
import doctest
import importlib.util
import json
import pkgutil
import re
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import baselines
import jaxgym
from baselines import config, evaluate, runs, train
from baselines.grpo import settings as grpo_settings
from docs.options_table import REGION, options_table

ROOT = Path(__file__).parents[1]
CODE = ("jaxgym", "baselines", "benchmarks", "docs", "examples", "tests")

# What each room of the package may import from the package; a room is named by the start of its modules' names.
CORE = {"jaxgym.environment", "jaxgym.errors", "jaxgym.facts", "jaxgym.forks", "jaxgym.levels", "jaxgym.options"}
CORE |= {"jaxgym.pytrees", "jaxgym.spaces"}
GAME = CORE | {"jaxgym.rendering", "jaxgym.rows", "jaxgym.spec", "jaxgym.text", "jaxgym.threefry"}
COMMON = {"jaxgym.envs.common"}
SHARED = COMMON | {"jaxgym.envs.memory_gym"}
TEXT_FILES = ("/text.py", "/dialects.py")
ARROWS = {
    "jaxgym.errors": set[str](),
    "jaxgym.forks": {"jaxgym.errors"},
    "jaxgym.extras": set[str](),
    "jaxgym.registry": {"jaxgym.errors"},
    "jaxgym.flags": set[str](),
    "jaxgym.interrupts": set[str](),
    "jaxgym.rendering": set[str](),
    "jaxgym.spaces": {"jaxgym.errors"},
    "jaxgym.options": {"jaxgym.errors"},
    "jaxgym.pytrees": {"jaxgym.errors"},
    "jaxgym.rows": set[str](),
    "jaxgym.facts": {"jaxgym.errors", "jaxgym.pytrees", "jaxgym.spaces"},
    "jaxgym.observability": {"jaxgym.environment", "jaxgym.facts", "jaxgym.spaces"},
    "jaxgym.spec": {
        "jaxgym.environment",
        "jaxgym.errors",
        "jaxgym.observability",
        "jaxgym.options",
        "jaxgym.registry",
    },
    "jaxgym.level_buffer_files": set[str](),
    "jaxgym.level_draws": {"jaxgym.errors"},
    "jaxgym.threefry": set[str](),
    "jaxgym.levels": {
        "jaxgym.level_buffer_files",
        "jaxgym.level_draws",
        "jaxgym.errors",
        "jaxgym.options",
        "jaxgym.registry",
    },
    "jaxgym.auto_reset": {"jaxgym.levels"},
    "jaxgym.actions": {"jaxgym.errors", "jaxgym.spaces"},
    "jaxgym.environment": {
        "jaxgym.actions",
        "jaxgym.auto_reset",
        "jaxgym.errors",
        "jaxgym.facts",
        "jaxgym.forks",
        "jaxgym.levels",
        "jaxgym.pytrees",
        "jaxgym.spaces",
    },
    "jaxgym.wrappers": CORE | SHARED | {"jaxgym.envs.searing_spotlights"},
    "jaxgym.instrumented": {"jaxgym.environment"},
    "jaxgym.testing": CORE | {"jaxgym.actions", "jaxgym.instrumented", "jaxgym.text", "jaxgym.wrappers"},
    "jaxgym.envs.common": GAME,
    "jaxgym.envs.memory_gym": GAME | COMMON,
    "jaxgym.envs.mortar_mayhem": GAME | SHARED,
    "jaxgym.envs.mystery_path": GAME | SHARED,
    "jaxgym.envs.searing_spotlights": GAME | SHARED,
    "jaxgym.envs.frozen_lake": GAME,
    "jaxgym.envs.boss_fight": GAME | COMMON,
    "jaxgym.envs.memory_cards": GAME | COMMON,
    "jaxgym.envs.numpad": GAME | COMMON,
    "jaxgym.envs.endless_t_maze": GAME | COMMON | {"jaxgym.envs.t_maze"},
    "jaxgym.envs.visual_match": GAME | COMMON,
    "jaxgym.envs.ballet": GAME | COMMON,
    "jaxgym.envs.color_cubes": GAME | COMMON,
    "jaxgym.envs.key_to_door": GAME | COMMON | {"jaxgym.envs.visual_match"},
    "jaxgym.envs.t_maze": GAME | COMMON,
    "jaxgym.envs.sudoku": GAME,
    "jaxgym.envs.textcraft": GAME,
    "jaxgym.envs.minigrid": GAME | COMMON,
    "jaxgym.envs.minigrid_memory": GAME | COMMON | {"jaxgym.envs.minigrid"},
    "jaxgym.envs.babyai": GAME | COMMON | {"jaxgym.envs.minigrid"},
    "jaxgym.envs": set[str](),
    "jaxgym.registration": CORE | {"jaxgym.registry", "jaxgym.spec"},
    "jaxgym.gymnasium_api": CORE
    | {"jaxgym.envs.common.episode_sequence", "jaxgym.observability", "jaxgym.registration"},
    "jaxgym.text": CORE | {"jaxgym.registration", "jaxgym.registry", "jaxgym.spec"},
    "jaxgym.human": CORE
    | SHARED
    | {
        "jaxgym.extras",
        "jaxgym.observability",
        "jaxgym.registration",
        "jaxgym.rendering",
        "jaxgym.serve.pool",
        "jaxgym.serve.sessions",
        "jaxgym.spec",
        "jaxgym.text",
    },
    "jaxgym.serve.sessions": {"jaxgym.options", "jaxgym.serve.images"},
    "jaxgym.serve.pool": CORE
    | {
        "jaxgym.registry",
        "jaxgym.rows",
        "jaxgym.serve.errors",
        "jaxgym.serve.images",
        "jaxgym.serve.sessions",
        "jaxgym.text",
        "jaxgym.threefry",
    },
    "jaxgym.serve.web": CORE
    | {
        "jaxgym.extras",
        "jaxgym.interrupts",
        "jaxgym.serve.errors",
        "jaxgym.serve.pool",
        "jaxgym.text",
    },
    "jaxgym.serve.page": CORE
    | {
        "jaxgym.serve.errors",
        "jaxgym.serve.images",
        "jaxgym.serve.pool",
        "jaxgym.serve.sessions",
        "jaxgym.serve.web",
        "jaxgym.text",
    },
    "jaxgym.demos": CORE
    | {
        "jaxgym.extras",
        "jaxgym.gymnasium_api",
        "jaxgym.registry",
        "jaxgym.serve.messages",
        "jaxgym.serve.pool",
        "jaxgym.serve.rollout",
        "jaxgym.text",
    },
    "jaxgym.serve": CORE | {"jaxgym.envs", "jaxgym.extras", "jaxgym.registry", "jaxgym.text", "jaxgym.threefry"},
}
UNBOUND = ("jaxgym", "jaxgym.__main__", "jaxgym.cli", "jaxgym.commands")  # re-exports and command line: every room
WITH_EXTRAS = ("jaxgym.cli", "jaxgym.commands", "jaxgym.flags", "jaxgym.human", "jaxgym.serve")
DEPENDENCIES = {"jax", "flax", "gymnasium", "gymnax", "numpy", "jaxgym"}

# What `import jaxgym` leaves out, since it needs other packages, or is of use to their users alone.
BRIDGES = {
    f"jaxgym.serve.{name}"
    for name in (
        *("openenv.client", "openenv.server", "pool", "ray", "rollout", "swift", "swift.images", "swift.sudoku"),
        *("evaluation", "textarena", "trl"),
        *(f"trainers.{name}" for name in ("episode", "nemo", "skyrl", "vagen", "verifiers")),
    )
}

# What can't be imported without a package that is no dependency.
OPTIONAL = {"textarena": "jaxgym.serve.textarena"}
OPTIONAL |= {name: f"jaxgym.serve.trainers.{name}" for name in ("slime", "verifiers", "verl")}
ABSENT = {module for package, module in OPTIONAL.items() if importlib.util.find_spec(package) is None}

FUNCTION_LINES = 60
FILE_LINES = {"jaxgym/": 400, "baselines/": 450, "benchmarks/": 450, "examples/": 450}

PURE = ("jaxgym/envs/", "jaxgym/rendering/", "jaxgym/text/")
ON_THE_HOST = ("/original.py", "/common/episode_sequence.py", "/common/draws.py")
# The protocols have names of their own.
WIRES = ("jaxgym/serve/agentgym/", "jaxgym/serve/openenv/", "jaxgym/serve/textarena")
HOST_CALLS = {"print", "open", "input"}
HOST_MODULES = {"io", "logging", "os", "pathlib", "random", "sys", "time"}

HEADINGS = ("Observation:", "Action:", "Start:", "Reward:", "End:", "Info:", "Versions:")

# The names that readers of settings give to them.
SETTINGS = {
    config.Config: {"config", "shown"},
    train.TrainFlags: {"run_flags"},
    grpo_settings.Settings: {"settings", "config"},  # the folder of every run calls them config
    runs.RunFlags: {"run_flags"},
    train.TrainArguments: {"arguments"},
    evaluate.EvaluateFlags: {"arguments"},
}

# In pieces, so that this file keeps the rule too.
REGISTRIES = (
    "py" + "pi.org",
    "python" + "hosted",
    "anaconda" + ".",
    "npm" + "js",
    "index" + "-url=",
    "artifact" + "ory",
)
MACHINE_PATH = re.compile(r"(?<![\w.$~])/(?:work|root|home|Users|opt|tmp)/")
PICTURE = re.compile(r'"image/png": "[^"]*"')  # in a notebook: letters at random
UNDONE = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")

Rule = Callable[[str, ast.Module], Iterator[str]]


def sources(*folders: str) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def texts() -> list[Path]:
    """Return every text file of the project."""
    folders = [path for folder in (*CODE, ".ci", ".github") for path in (ROOT / folder).rglob("*")]
    suffixes = {"", ".py", ".md", ".toml", ".txt", ".ipynb", ".json", ".yml", ".yaml", ".cff"}
    return [path for path in [*ROOT.iterdir(), *folders] if path.is_file() and path.suffix in suffixes]


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def is_within(name: str, room: str) -> bool:
    return name == room or name.startswith(room + ".")


def room_of(module: str) -> str | None:
    return next((room for room in ARROWS if is_within(module, room)), None)


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Return line and full name of each imported module, without imports for type checkers only."""
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if is_module(full) else base


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Return line and spelling of each name that the file defines or uses."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name):
                yield node.lineno, name
            case ast.keyword(arg=str(name)):
                yield node.lineno, name


def follows_the_arrows(path: str, tree: ast.Module) -> Iterator[str]:
    module = module_of(path)
    if not path.startswith("jaxgym/") or module in UNBOUND:
        return
    room = room_of(module)
    if room is None:
        yield f"{path}: no row in ARROWS says what it may import"
        return
    for line, imported in imports(tree):
        if imported.startswith("."):
            yield f"{path}:{line}: relative import {imported}"
        elif imported.split(".")[0] in CODE and not is_within(imported, "jaxgym"):
            yield f"{path}:{line}: imports {imported}"
        elif is_within(room, "jaxgym.envs") and is_within(imported, "jaxgym.text") and not path.endswith(TEXT_FILES):
            yield f"{path}:{line}: only {', '.join(TEXT_FILES)} import {imported}"
        elif is_within(imported, "jaxgym") and not any(is_within(imported, part) for part in (room, *ARROWS[room])):
            yield f"{path}:{line}: {room} imports {imported}"


def imports_no_extra(path: str, tree: ast.Module) -> Iterator[str]:
    if not path.startswith("jaxgym/") or any(is_within(module_of(path), room) for room in WITH_EXTRAS):
        return
    for line, imported in imports(tree):
        package = imported.split(".")[0]
        if package not in DEPENDENCIES | sys.stdlib_module_names:
            yield f"{path}:{line}: imports {package}, which is no dependency of the core"


def uses_public_names(path: str, tree: ast.Module) -> Iterator[str]:
    if not path.startswith(("baselines/", "benchmarks/", "examples/")):
        return
    public = (
        {"jaxgym", "jaxgym.demos", "jaxgym.extras", "jaxgym.interrupts", "jaxgym.pytrees"}
        | BRIDGES
        | {f"jaxgym.{name}" for name in jaxgym.__all__ if is_module(f"jaxgym.{name}")}
    )
    for line, imported in imports(tree):
        if is_within(imported, "jaxgym") and imported not in public:
            yield f"{path}:{line}: imports {imported}, which is not public"


def keeps_the_budgets(path: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.end_lineno:
            length = node.end_lineno - node.lineno + 1
            if length > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines of {FUNCTION_LINES}"
    most = next((lines for folder, lines in FILE_LINES.items() if path.startswith(folder)), None)
    length = max((node.end_lineno or 0 for node in tree.body), default=0)
    if most and length > most:
        yield f"{path}: {length} lines of {most}"


def stays_on_the_device(path: str, tree: ast.Module) -> Iterator[str]:
    if not path.startswith(PURE) or path.endswith(ON_THE_HOST):
        return
    for line, imported in imports(tree):
        if imported.split(".")[0] in HOST_MODULES or imported.startswith("numpy.random"):
            yield f"{path}:{line}: imports {imported}"
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in HOST_CALLS:
                yield f"{path}:{node.lineno}: calls {name}"
            case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"):
                yield f"{path}:{node.lineno}: uses NumPy's generators"
            case ast.Global():
                yield f"{path}:{node.lineno}: has a global"
            case ast.FunctionDef(name=name) if name != "__init__":
                yield from (f"{path}:{line}: sets an attribute of self" for line in _self_assignments(node))


def _self_assignments(function: ast.FunctionDef) -> Iterator[int]:
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()):
                yield node.lineno


def tells_endings_apart(path: str, tree: ast.Module) -> Iterator[str]:
    if path.startswith("jaxgym/") and not path.startswith(WIRES):
        yield from (f"{path}:{line}: says done" for line, name in names(tree) if name in {"done", "dones"})


def names_keys(path: str, tree: ast.Module) -> Iterator[str]:
    for line, name in names(tree):
        if re.fullmatch(r"_?rng\w*|key\d+", name):
            yield f"{path}:{line}: {name} is no name for a key"


def replaces_by_function(path: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="replace"), args=[], keywords=[_, *_]):
                yield f"{path}:{node.lineno}: dataclasses.replace({owner}, ...) is what type checkers know"


RULES: tuple[Rule, ...] = (
    follows_the_arrows,
    imports_no_extra,
    uses_public_names,
    keeps_the_budgets,
    stays_on_the_device,
    tells_endings_apart,
    names_keys,
    replaces_by_function,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_file(rule: Rule) -> None:
    violations = [line for path in sources(*CODE) for line in rule(path, ast.parse((ROOT / path).read_text()))]
    assert not violations, "\n".join(violations)


PLANTED = (
    (follows_the_arrows, "jaxgym/rendering/canvas.py", "from jaxgym import environment"),
    (follows_the_arrows, "jaxgym/envs/sudoku/planted.py", "from jaxgym.registration import make"),
    (follows_the_arrows, "jaxgym/envs/sudoku/planted.py", "from jaxgym.envs.memory_gym import arena"),
    (follows_the_arrows, "jaxgym/envs/minigrid/planted.py", "from jaxgym.envs.memory_gym import arena"),
    (follows_the_arrows, "jaxgym/envs/memory_gym/planted.py", "from jaxgym.envs.mortar_mayhem import scene"),
    (follows_the_arrows, "jaxgym/envs/mortar_mayhem/game.py", "from jaxgym.text import Words"),
    (follows_the_arrows, "jaxgym/envs/new_game/planted.py", "from jaxgym import levels"),
    (follows_the_arrows, "jaxgym/environment.py", "def f():\n    import baselines.train"),
    (follows_the_arrows, "jaxgym/levels.py", "from . import errors"),
    (follows_the_arrows, "jaxgym/serve/pool/planted.py", "from jaxgym.serve import episodes"),
    (follows_the_arrows, "jaxgym/serve/page/planted.py", "from jaxgym.serve.openenv import frames"),
    (follows_the_arrows, "jaxgym/planted.py", ""),
    (imports_no_extra, "jaxgym/wrappers/planted.py", "import optax"),
    (uses_public_names, "baselines/planted.py", "from jaxgym.envs.memory_gym import arena"),
    (keeps_the_budgets, "tests/planted.py", "def f():" + "\n    pass" * FUNCTION_LINES),
    (keeps_the_budgets, "jaxgym/envs/sudoku/planted.py", "x = 1\n" * 401),
    (keeps_the_budgets, "baselines/planted.py", "x = 1\n" * 451),
    (stays_on_the_device, "jaxgym/envs/sudoku/planted.py", "print(1)"),
    (stays_on_the_device, "jaxgym/envs/sudoku/planted.py", "open('file')"),
    (stays_on_the_device, "jaxgym/rendering/planted.py", "import time"),
    (stays_on_the_device, "jaxgym/rendering/planted.py", "from numpy.random import default_rng"),
    (stays_on_the_device, "jaxgym/envs/sudoku/planted.py", "x = np.random.rand()"),
    (stays_on_the_device, "jaxgym/envs/sudoku/planted.py", "def f():\n    global x"),
    (stays_on_the_device, "jaxgym/envs/sudoku/planted.py", "def f(self):\n    self.x += 1"),
    (tells_endings_apart, "jaxgym/planted.py", "done = terminated | truncated"),
    (names_keys, "baselines/planted.py", "def f(rng): pass"),
    (names_keys, "jaxgym/planted.py", "key1 = jax.random.key(0)"),
    (replaces_by_function, "jaxgym/planted.py", "state.replace(time=1)"),
)


@pytest.mark.parametrize(("rule", "path", "source"), PLANTED)
def test_a_rule_catches_a_planted_violation(rule: Rule, path: str, source: str) -> None:
    assert list(rule(path, ast.parse(source)))


def unread_settings(settings: type, readers: set[str], trees: list[ast.Module]) -> set[str]:
    """Return fields that no line reads: by attribute, in a property of the settings, or as a command-line flag."""
    unread = {field.name for field in dataclasses.fields(settings)}
    for node in (node for tree in trees for node in ast.walk(tree)):
        match node:
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name) if owner in readers:
                unread.discard(name)
            case ast.Constant(value=str(word)) if word.startswith("--"):
                unread.discard(word.removeprefix("--").replace("-", "_"))
            case ast.ClassDef(name=settings.__name__):
                unread -= set(_read_by_properties(node))
    return unread


def _read_by_properties(node: ast.ClassDef) -> Iterator[str]:
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.decorator_list:
            yield from (inner.attr for inner in ast.walk(item) if isinstance(inner, ast.Attribute))


@pytest.mark.parametrize(("settings", "readers"), SETTINGS.items())
def test_every_setting_of_the_baselines_is_read(settings: type, readers: set[str]) -> None:
    trees = [ast.parse((ROOT / path).read_text()) for path in sources("baselines")]
    assert not unread_settings(settings, readers, trees)


def test_an_unread_setting_is_noticed() -> None:
    settings = dataclasses.make_dataclass("Planted", ["read", "unread"])
    assert unread_settings(settings, {"config"}, [ast.parse("config.read + other.unread")]) == {"unread"}


def test_importing_jaxgym_reads_no_file_and_starts_nothing_that_gymnax_does_not() -> None:
    # Everything up to `import jaxgym` is what it builds on; what is counted after that is its own.
    program = """
import json, pathlib, sys
import flax.struct, gymnax, gymnax.registration, jax, jax._src.xla_bridge as bridge
opened, compiled = [], []
sys.addaudithook(lambda event, args: event == "open" and opened.append(str(args[0])))
jax.monitoring.register_event_duration_secs_listener(lambda event, duration, **_: compiled.append(event))
before = sorted(bridge._backends), len(jax.live_arrays())
import jaxgym
after = sorted(bridge._backends), len(jax.live_arrays())
allowed = (".py", ".pyc", "entry_points.txt")  # the last names the environments of installed packages
read = [path for path in opened if pathlib.Path(path).is_file() and not path.endswith(allowed) and ".pyc." not in path]
print(json.dumps({"read": read, "compiled": compiled, "before": before, "after": after}))
"""
    finished = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    seen = json.loads(finished.stdout)
    assert seen["read"] == []
    assert seen["compiled"] == []
    assert seen["before"] == seen["after"]


@pytest.mark.parametrize("env_id", jaxgym.registered_envs())
def test_every_id_has_a_page_and_the_headings(env_id: str) -> None:
    pages = [page for page in (ROOT / "docs/environments").glob("*.md") if f"`{env_id}`" in page.read_text()]
    assert pages, f"no page in docs/environments names `{env_id}`"
    docstring = type(jaxgym.make(env_id)[0]).__doc__ or ""
    assert not [heading for heading in HEADINGS if heading not in docstring]


@pytest.mark.parametrize("page", sorted((ROOT / "docs/environments").glob("[!i]*.md")), ids=lambda page: page.stem)
def test_the_options_on_a_page_are_those_of_the_code(page: Path) -> None:
    regions = REGION.findall(page.read_text())
    assert regions, f"{page} has no table of options"
    for start, ids, table, _ in regions:
        assert table == options_table(ids.split()), f"run python -m docs.options_table ({start})"


def test_no_file_names_a_package_registry() -> None:
    assert not [(path, host) for path in texts() for host in REGISTRIES if host in path.read_text()]


def test_no_file_names_a_path_of_a_machine() -> None:
    assert not [(path, found[0]) for path in texts() if (found := MACHINE_PATH.search(path.read_text()))]


def test_no_file_leaves_something_undone() -> None:
    assert not [(path, found[0]) for path in texts() if (found := UNDONE.search(PICTURE.sub("", path.read_text())))]


@pytest.mark.parametrize("page", [path for path in texts() if path.suffix == ".md"], ids=lambda page: page.name)
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not broken


def modules(package: types.ModuleType) -> Iterator[types.ModuleType]:
    yield package
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__") and found.name not in ABSENT:
            yield importlib.import_module(found.name)


@pytest.mark.parametrize("package", [jaxgym, baselines], ids=lambda package: package.__name__)
def test_every_doctest_runs(package: types.ModuleType) -> None:
    results = {module.__name__: doctest.testmod(module) for module in modules(package)}
    assert not {name: result for name, result in results.items() if result.failed}


PRIVATE_WORDS = re.compile(
    r"(?i)(?<![a-z])(?:lanes?|banks?|ledgers?|refusals?|refused|owed|whoever|(?-i:[Ii]n words)|looks_of|\w+_looks\b|"
    r"stamp(?:s|ed|ing)?)(?![a-z])"
)
"""Names and words of an earlier version, for which the standard terms stand now; the changelog has both."""

OF_OTHERS = ("CHANGELOG.md", "Makefile", "tests/serve/test_messages.py", "tests/test_house_rules.py")
"""Files whose words are old entries, make's stamp file, a field of OpenAI's messages, and this list."""


def private_words(text: str) -> list[str]:
    return [found[0] for found in PRIVATE_WORDS.finditer(text)]


def test_code_and_pages_use_the_standard_terms() -> None:
    pages = [path for path in texts() if path.suffix in {".py", ".md", ".ipynb"} or path.name == "Makefile"]
    named = {path.relative_to(ROOT).as_posix(): path for path in pages}
    found = {name: private_words(path.read_text()) for name, path in named.items() if name not in OF_OTHERS}
    assert not {name: words for name, words in found.items() if words}


@pytest.mark.parametrize(
    "text",
    [
        "each lane of a batch",
        "num_lanes = 3",
        "def make_bank(seeds):",
        "a refused reply",
        "text.Refusal",
        "games in words",
    ],
)
def test_a_private_word_is_noticed(text: str) -> None:
    assert private_words(text)
    assert not private_words("planes of riverbanks")
