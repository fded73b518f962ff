"""Report of the conformance lines."""

from pathlib import Path

import pytest

from tests.conformance import run


def test_every_line_names_a_file() -> None:
    assert [line for line in run.LINES if not (run.FOLDER / line.file).is_file()] == []


def test_a_skipped_line_names_what_is_missing_and_does_not_count_as_passed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AGENTGYM_SRC", raising=False)
    assert run.main(run.Arguments(only="agentgym frozen_lake")) == 0
    line, summary = capsys.readouterr().out.splitlines()
    assert line.startswith("AgentGym frozen_lake ")
    assert "SKIP" in line
    assert "set AGENTGYM_SRC to a checkout" in line
    assert summary == "0 of 0 lines pass, 1 skipped."


def test_results_of_a_report() -> None:
    report = """<testsuites><testsuite>
        <testcase name="a"/>
        <testcase name="b"><failure message="one of two"/></testcase>
        <testcase name="c"><skipped message="no checkout"/></testcase>
        <testcase name="d"><error message="no fixture"/></testcase>
    </testsuite></testsuites>"""
    assert run.results(report) == [
        ("PASS", "a", ""),
        ("FAIL", "b", "one of two"),
        ("SKIP", "c", "no checkout"),
        ("FAIL", "d", "no fixture"),
    ]


def test_a_skipped_test_of_a_line_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_planted.py").write_text(
        "import pytest\ndef test_it():\n    pass\ndef test_other():\n    pytest.skip('no model')\n"
    )
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    monkeypatch.setattr(run, "LINES", (run.Line("planted", "test_planted.py"),))
    assert run.main(run.Arguments()) == 0
    line, skipped, _ = capsys.readouterr().out.splitlines()
    assert line.split() == ["planted", "1", "PASS,", "1", "SKIP"]
    assert skipped.strip() == "SKIP test_other: no model"


@pytest.mark.parametrize(("body", "code", "said"), [("assert 1 > 2", 1, "FAIL test_it"), ("pass", 0, "1 PASS")])
def test_a_line_passes_where_its_tests_do(
    tmp_path: Path, body: str, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_planted.py").write_text(f"def test_it():\n    {body}\n")
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    monkeypatch.setattr(run, "LINES", (run.Line("planted", "test_planted.py"),))
    assert run.main(run.Arguments()) == code
    assert said in capsys.readouterr().out
