"""Files around the code state the same facts as the code: workflow, citation, notice, hooks and procedures."""

import itertools
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import jaxgym

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
PAGES = ("CONTRIBUTING.md", "docs/releasing.md", ".github/PULL_REQUEST_TEMPLATE.md")


def load(path: str | Path) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def supported_pythons() -> list[str]:
    found = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"])
    assert found, PROJECT["requires-python"]
    return [f"3.{minor}" for minor in range(int(found[1]), int(found[2]))]


def combinations(job: dict[str, Any]) -> list[dict[str, str]]:
    """Return the values of the matrix for each run of a job; one run without values if it has no matrix."""
    matrix = dict(job.get("strategy", {}).get("matrix", {}))
    included = matrix.pop("include", [])
    return [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())] + included


def commands(job: dict[str, Any]) -> Iterator[str]:
    """Yield every shell line of a job, with the values of its matrix in place."""
    for values in combinations(job):
        for step in job["steps"]:
            for line in step.get("run", "").splitlines():
                yield re.sub(r"\$\{\{ matrix\.([\w-]+) \}\}", lambda found, values=values: values[found[1]], line)


def test_the_matrix_has_every_supported_python_with_lowest_and_newest_versions() -> None:
    runs = combinations(load(".github/workflows/ci.yml")["jobs"]["test"])
    linux = {(run["python-version"], run["target"]) for run in runs if run["os"].startswith("ubuntu")}
    assert linux == set(itertools.product(supported_pythons(), ("test", "test-lowest", "test-newest")))
    assert [run["target"] for run in runs if run["os"].startswith("macos")] == ["test"]


def test_the_classifiers_are_the_supported_pythons() -> None:
    classifiers = [line for line in PROJECT["classifiers"] if line.startswith("Programming Language :: Python :: 3.")]
    assert [line.rpartition(" ")[2] for line in classifiers] == supported_pythons()


def test_the_workflow_runs_targets_of_the_makefile_only() -> None:
    jobs = [job for path in WORKFLOWS for job in load(path)["jobs"].values()]
    lines = [line for job in jobs for line in commands(job)]
    assert not [line for line in lines if not re.match(r"make [a-z-]+(?: [A-Z]+=\S+)*$", line)]
    used = {line.split()[1] for line in lines}
    assert {"lint", "lint-schemas", "test", "test-lowest", "test-newest", "docs", "dist"} <= used <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_reads_only_and_pins_its_actions(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    assert not [line for line in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", line)]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_targets_of_the_makefile_only(page: str) -> None:
    text = (ROOT / page).read_text()
    named = {target for line in re.findall(r"`(make [^`]*)`|^ *(make .*)$", text, re.MULTILINE) for target in line}
    named = {name.split()[1] for name in named if name}
    assert named
    assert named <= TARGETS


def test_the_citation_has_the_version_and_license_of_the_package() -> None:
    citation = load("CITATION.cff")
    assert citation["version"] == jaxgym.__version__
    assert citation["license"] == PROJECT["license"]


def test_every_path_in_the_notice_exists() -> None:
    notice = (ROOT / "NOTICE").read_text()
    paths = re.findall(r"(?<![\w/])(?:baselines|docs|jaxgym|tests)/[\w./]*\w", notice)
    assert {"tests/data/traces", "tests/data/views.npz", "tests/data/successive_episodes.json"} <= set(paths)
    assert not [path for path in paths if not (ROOT / path).exists()]


def test_every_recording_is_in_the_notice() -> None:
    notice = (ROOT / "NOTICE").read_text()
    assert not [path.name for path in (ROOT / "tests/data").iterdir() if f"tests/data/{path.name}" not in notice]


def test_the_wheel_contains_license_and_notice() -> None:
    assert PROJECT["license-files"] == ["LICENSE", "NOTICE"]


def test_the_wheel_contains_code_and_data_but_no_weights(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)], cwd=ROOT, check=True, capture_output=True
    )
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"baselines/zoo/sha256.json", "baselines/published.json", "jaxgym/py.typed"} <= set(names)
    assert not [name for name in names if name.endswith((".npz", ".png", ".gif"))]
    assert max(wheel.stat().st_size, sdist.stat().st_size) < 2_000_000


def test_hooks_run_locked_tools_without_the_network() -> None:
    config = load(".pre-commit-config.yaml")
    assert {repo["repo"] for repo in config["repos"]} == {"local"}
    hooks = {hook["id"]: hook for repo in config["repos"] for hook in repo["hooks"]}
    assert set(hooks) == {"ruff-check", "ruff-format", "codespell", "gitlint"}
    assert hooks["gitlint"]["stages"] == ["commit-msg"]
    assert all(hook["entry"].startswith(".venv/bin/python -m ") for hook in hooks.values())
    locked = (ROOT / "requirements-dev.txt").read_text()
    assert not [name for name in ("codespell", "gitlint-core", "pre-commit", "ruff") if f"\n{name}==" not in locked]


SUBJECT = re.compile(re.search(r"^regex=(.*)$", (ROOT / ".gitlint").read_text(), re.MULTILINE)[1])  # type: ignore[index]


@pytest.mark.parametrize(
    "subject",
    [
        "Cache sprite tables per process",
        "Pass the seed on",
        "Process queues in order",
        "Need no JAX",
        "Use uv",
        "Focus",
    ],
)
def test_an_imperative_subject_passes(subject: str) -> None:
    assert SUBJECT.search(subject)


@pytest.mark.parametrize(
    "subject",
    [
        "A comment fits its line",
        "What the long run of TrXL did on its way",
        "Fixed the seed",
        "Fixes the seed",
        "Fixing the seed",
        "fix the seed",
        "[fix] Restore the seed",
        "The server closes idle sessions",
    ],
)
def test_another_subject_is_stopped(subject: str) -> None:
    assert not SUBJECT.search(subject)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_asks_for_named_fields(path: Path) -> None:
    form = load(path)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert form["name"]
    assert form["description"]
    assert fields
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
