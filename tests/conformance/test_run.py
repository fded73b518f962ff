"""What is told of the lines."""

from pathlib import Path

import pytest

from tests.conformance import run


def test_a_line_that_is_skipped_does_not_count_as_one_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "common.py").touch()
    monkeypatch.delenv("AGENTGYM_SRC", raising=False)
    assert run.main(run.Arguments(tmp_path, only="agentgym")) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 of 0 lines pass, 2 skipped."
