"""The Python of docs/vision.md runs as it stands."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from vision.clips import animation

PAGE = Path(__file__).parents[2] / "docs" / "vision.md"


def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(PAGE.parents[1] / "examples", "examples")
    Path("clip.gif").write_bytes(animation("GIF", [0, 100, 200], 1000))
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)  # noqa: S102
    assert len(names["embeddings"]) == names["image"].soft_tokens
    assert capsys.readouterr().out.splitlines() == ["4071", "4071", "0.0 60", "1.0 60", "2.0 60"]
