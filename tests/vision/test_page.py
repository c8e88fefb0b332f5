"""The Python of docs/vision.md runs as it stands."""

import re
from pathlib import Path
from typing import Any

import pytest
from engine.seeing import make_seeing_folder

from vision.clips import animation
from vision.pictures import photo

PAGE = Path(__file__).parents[2] / "docs" / "vision.md"


def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_seeing_folder(tmp_path / "model")
    photo(640, 480).save("photo.jpg")
    Path("clip.gif").write_bytes(animation("GIF", [0, 100, 200], 1000))
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)  # noqa: S102
    assert names["embeddings"].shape == (266, 24)
    assert capsys.readouterr().out.splitlines() == ["0.0 60", "1.0 60", "2.0 60"]
