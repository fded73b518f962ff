"""The code of docs/how_to/other_libraries.md runs by section; a section whose package is missing is skipped by name."""

import os
import re
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chex
import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import jaxgym
from jaxgym.spaces import Discrete, MultiDiscrete
from tests.ids import families

PAGE = Path(__file__).parents[1] / "docs/how_to/other_libraries.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SECTIONS = {
    section.partition("\n")[0]: section for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
}
PACKAGES = {
    "rejax": "rejax",
    "Stoa and Stoix": "stoa",
    "JaxUED": "jaxued",
    "Stable-Baselines3": "stable_baselines3",
}
# Scripts without a package: the variable names a checkout.
CHECKOUTS = {"PureJaxRL": ("PUREJAXRL", "purejaxrl/ppo.py"), "CleanRL": ("CLEANRL", "cleanrl/ppo.py")}

# Other packages may warn of what they will change.
pytestmark = [pytest.mark.standard_promotion, pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True)
def _reused_keys() -> Iterator[None]:
    """Allow other packages to use a key twice."""
    with jax.debug_key_reuse(False):
        yield


def run_section(title: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in BLOCK.findall(SECTIONS[title]):
        exec(compile(block, title, "exec"), names)
    return names


def test_the_page_has_the_sections_that_are_tested() -> None:
    tested = {"gymnax", "PureJaxRL", "rejax", "Stoa and Stoix", "JaxUED", "Stable-Baselines3", "CleanRL"}
    assert set(SECTIONS) == tested | {"Flat actions", "Compilation cache"}


def test_gymnax() -> None:
    names = run_section("gymnax")
    assert names["observation"].shape == names["env"].observation_space(names["params"]).shape


@pytest.mark.slow
def test_a_loop_like_that_of_purejaxrl() -> None:
    names = run_section("PureJaxRL")
    assert names["observations"].shape == (32, 8, *names["shape"])
    assert names["dones"].dtype == bool
    assert names["dones"].any()


def test_rejax() -> None:
    pytest.importorskip("rejax")
    names = run_section("rejax")
    assert int(names["train_state"].global_step) == 1024
    assert names["returns"].shape == (2, 128)
    assert (names["lengths"] > 0).all()


def test_stoa_and_the_wrappers_of_stoix() -> None:
    pytest.importorskip("stoa")
    names = run_section("Stoa and Stoix")
    env, state, time_step = names["env"], names["state"], names["time_step"]
    step, seen = jax.jit(env.step), []
    for _ in range(40):
        state, time_step = step(state, jax.numpy.zeros(8, jax.numpy.int32))
        seen.append(jax.tree.map(np.asarray, (time_step.last(), time_step.truncated(), time_step.discount)))
        differs = (time_step.extras["next_obs"] != time_step.observation).any(axis=-1)
        # Both are the same observation except where an episode ended, if the next one starts with another.
        assert not differs[~seen[-1][0]].any()
        assert differs[seen[-1][0]].any() or not seen[-1][0].any()
    last, truncated, discount = (np.stack(leaves) for leaves in zip(*seen, strict=True))
    assert last.any()
    assert ((discount == 0) == (last & ~truncated)).all()


def test_jaxued() -> None:
    pytest.importorskip("jaxued")
    names = run_section("JaxUED")
    env, params, levels = names["env"], names["params"], names["levels"]
    frame = names["plain"].render_level(jax.tree.map(lambda leaf: leaf[0], levels), params)
    assert frame.shape == (84, 84, 3)
    assert int(names["sampler"]["size"]) == 8
    step, state, ends = jax.jit(jax.vmap(env.step, in_axes=(0, 0, 0, None))), names["state"], 0
    start = jax.vmap(env.reset_to_level, in_axes=(0, 0, None))(jax.random.split(jax.random.key(1), 8), levels, params)
    for number in range(params.max_steps_in_episode):
        keys = jax.random.split(jax.random.key(number), 8)
        observation, state, _, done, _ = step(keys, state, jax.numpy.full(8, 2), params)
        ends += int(done.sum())
        # After an end, the wrapper plays the same level again.
        assert (observation[done] == start[0][done]).all()
        chex.assert_trees_all_equal(state.env_state.level, levels)
    assert ends >= 8  # the time limit ends each of them


def test_stable_baselines3() -> None:
    pytest.importorskip("stable_baselines3")
    names = run_section("Stable-Baselines3")
    assert names["action"].shape == (2,)
    assert names["model"].num_timesteps == 64


@pytest.mark.slow
def test_a_loop_like_that_of_cleanrl() -> None:
    finished = run_section("CleanRL")["finished"]
    assert finished
    assert all(0 <= total <= 1 for total in finished)


@pytest.mark.parametrize("title", CHECKOUTS)
def test_the_changed_script(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable, path = CHECKOUTS[title]
    if variable not in os.environ:
        pytest.skip(f"{variable} names no checkout of {title}")
    for package in ("torch", "tensorboard") if title == "CleanRL" else ("distrax",):
        if package != "tensorboard":
            pytest.importorskip(package)
    script = Path(os.environ[variable]) / path
    source = changed(script.read_text(), SECTIONS[title])
    RUNS[title](source, script, monkeypatch)


def changed(source: str, section: str) -> str:
    """Return a script with the changes of the section's diff."""
    (diff,) = re.findall(r"^```diff\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    added_imports = [line[1:] for line in diff.splitlines() if line.startswith(("+import", "+from"))]
    for part in diff.split("@@\n"):
        lines = [line for line in part.splitlines() if not line.startswith(("+import", "+from"))]
        old = "\n".join(line[1:] for line in lines if line[0] in "- ")
        new = "\n".join(line[1:] for line in lines if line[0] in "+ ")
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return "\n".join([*added_imports, source])


def run_purejaxrl(source: str, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training", "navix"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))  # for other environments
    sys.modules["brax"].envs = sys.modules["brax.envs"]  # pyright: ignore[reportAttributeAccessIssue]
    for name in ("EpisodeWrapper", "AutoResetWrapper"):
        setattr(sys.modules["brax.envs.wrappers.training"], name, None)
    monkeypatch.syspath_prepend(str(script.parent))
    names: dict[str, Any] = {"__name__": "ppo"}
    exec(compile(source, str(script), "exec"), names)
    config = dict(re.findall(r'"(\w+)": ([^,]+),', source.partition("__main__")[2]))
    config = {name: eval(value) for name, value in config.items()}  # the script's own settings
    config |= {"ENV_NAME": "MortarMayhemB-Grid-v0", "TOTAL_TIMESTEPS": 1024, "DEBUG": False}
    trained = jax.jit(names["make_train"](config))(jax.random.PRNGKey(30))
    assert trained["metrics"]["returned_episode"].any()


def run_cleanrl(source: str, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, float, int]] = []

    class Writer:
        def __init__(self, *_: Any) -> None: ...
        def add_text(self, *_: Any) -> None: ...
        def close(self) -> None: ...
        def add_scalar(self, *values: Any) -> None:
            written.append(values)

    tensorboard = types.ModuleType("torch.utils.tensorboard")
    tensorboard.SummaryWriter = Writer  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, tensorboard.__name__, tensorboard)
    flags = ["--env-id", "jaxgym/MortarMayhemB-Grid-v0", "--num-envs", "8", "--total-timesteps", "2048"]
    monkeypatch.setattr("sys.argv", [str(script), *flags])
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    main.__dict__["__file__"] = str(script)
    exec(compile(source, str(script), "exec"), main.__dict__)
    returns = [value for name, value, _ in written if name == "charts/episodic_return"]
    assert returns
    assert all(0 <= value <= 1 for value in returns)


RUNS: dict[str, Callable[[str, Path, pytest.MonkeyPatch], None]] = {
    "PureJaxRL": run_purejaxrl,
    "CleanRL": run_cleanrl,
}


def test_flat_actions(capsys: pytest.CaptureFixture[str]) -> None:
    run_section("Flat actions")
    assert capsys.readouterr().out.split("\n")[:2] == ["MultiDiscrete([3, 3])", "9"]


@pytest.mark.parametrize("env_id", families())
def test_every_action_with_parts_can_be_flat_but_for_what_the_page_names(env_id: str) -> None:
    env, params = jaxgym.make(env_id, levels="fresh")
    without = re.findall(r"`([\w-]+)` has\s+no flat actions", SECTIONS["Flat actions"])
    if isinstance(env.action_space(params), MultiDiscrete) and env_id not in without:
        flat, params = jaxgym.make(env_id, levels="fresh", flat_actions=True)
        space = flat.action_space(params)
        assert isinstance(space, Discrete)
        assert space.n == np.prod(env.action_space(params).nvec)
    else:
        assert "flat_actions" not in jaxgym.spec_of(env_id).all_options


@pytest.mark.slow
def test_the_compilation_cache_is_filled_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    before = {
        name: getattr(jax.config, name)
        for name in ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    }
    hits: list[str] = []
    jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if "cache_hits" in event else None)
    try:
        compilation_cache.reset_cache()
        run_section("Compilation cache")
        assert list((tmp_path / ".cache/jax").glob("*-cache"))
        assert not hits
        jax.clear_caches()
        run_section("Compilation cache")
        assert hits
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
