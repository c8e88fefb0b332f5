"""What is said of an adapter that is put on another model than it was trained on."""

from pathlib import Path

import pytest
from oracle import random_model

import gesso
from gesso.models.other_base import OtherBaseWarning, other_base
from gesso.models.saving import save_folder
from models.test_base_weights import SHAPE, saved_adapter


def test_another_base_is_warned_of_in_python(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    for seed, name in enumerate(("mine", "other")):
        save_folder(random_model(SHAPE, seed=seed), tmp_path / name)
    adapter = saved_adapter(tmp_path / "mine", tmp_path / "adapter").parent
    gesso.load(tmp_path / "mine", "cpu", adapter=adapter)
    assert not [warning for warning in recwarn if warning.category is OtherBaseWarning]
    with pytest.warns(OtherBaseWarning, match=r"adapter was trained on other weights \(base\) than those of .*other$"):
        gesso.load(tmp_path / "other", "cpu", adapter=adapter)


def test_nothing_is_said_of_what_is_not_here(tmp_path: Path) -> None:
    save_folder(random_model(SHAPE, seed=0), tmp_path / "mine")
    adapter = saved_adapter(tmp_path / "mine", tmp_path / "adapter").parent
    assert not other_base(adapter, "nobody/nothing")
