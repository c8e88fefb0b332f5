"""Folders that a run wrote, given where something else belongs."""

from pathlib import Path

import pytest

from gesso.models.run_folders import instead_of_adapter, instead_of_checkpoint


@pytest.mark.parametrize(
    ("file", "checkpoint", "adapter"),
    [
        ("adapter_config.json", "that is an adapter: give its base as the model, and --adapter {}", None),
        (
            "adapter/adapter_config.json",
            "that is the folder of a run: give its base as the model, and --adapter {}/adapter",
            "that is the folder of a run; its adapter is {}/adapter",
        ),
        ("model/config.json", "that is the folder of a run; its model is {}/model", None),
        ("config.txt", None, None),
    ],
)
def test_what_a_run_wrote_is_pointed_to(tmp_path: Path, file: str, checkpoint: str | None, adapter: str | None) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("{}")
    for told, wanted in ((instead_of_checkpoint, checkpoint), (instead_of_adapter, adapter)):
        assert told(tmp_path) == (None if wanted is None else wanted.format(tmp_path))
