"""Grids, from files and refused."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gesso.diffusion.samplers import SAMPLERS
from gesso.errors import ConfigError, OptionError
from gesso.lab.grid import Grid, Setting, read_grid
from gesso.options.user_code import imported


def written(folder: Path, fields: Any) -> Path:
    path = folder / "grid.json"
    path.write_text(fields if isinstance(fields, str) else json.dumps(fields), encoding="utf-8")
    return path


def test_a_file_lists_settings_and_multiplies(tmp_path: Path) -> None:
    grid = read_grid(
        written(
            tmp_path,
            {
                "models": ["sudoku"],
                "settings": [{}],
                "product": {"sampler": ["remdm", "planner"], "max_denoising_steps": [4, 8]},
            },
        )
    )
    assert grid.tasks_of("sudoku") == ("sudoku",)
    assert [str(setting) for setting in grid.settings] == [
        "as the model has it",
        "sampler=remdm max_denoising_steps=4",
        "sampler=remdm max_denoising_steps=8",
        "sampler=planner max_denoising_steps=4",
        "sampler=planner max_denoising_steps=8",
    ]
    assert read_grid(written(tmp_path, {})) == Grid()


def test_a_settings_name_does_not_depend_on_the_order() -> None:
    assert Setting({"a": 1, "b": 2}).key == Setting({"b": 2, "a": 1}).key
    mixed = Setting({"best_of": 4, "top_k": 3, "check": "task"})
    assert mixed.request == {"top_k": 3}
    assert (mixed.search.best_of, mixed.search.check) == (4, "task")


def test_a_check_is_named_with_what_its_file_holds(tmp_path: Path) -> None:
    file = tmp_path / "checks.py"
    setting = Setting({"best_of": 2, "check": f"{file}:check"})
    file.write_text("def check(prompt, text):\n    return 0\n", "utf-8")
    before = setting.key
    assert setting.key == before
    file.write_text("def check(prompt, text):\n    return 1\n", "utf-8")
    assert setting.key != before


def test_a_sampler_and_a_task_of_ones_own_are_named_with_what_their_file_holds(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    text = (
        "from dataclasses import dataclass\nfrom gesso.diffusion.samplers import SAMPLERS, Sampler\n"
        "@SAMPLERS.register('own')\n@dataclass(frozen=True)\nclass Own(Sampler):\n    pass\n"
    )
    setting, keys = Setting({"sampler": "own"}), []
    try:
        for step in ("", "# another\n"):
            file.write_text(text + step, "utf-8")
            imported(str(file), "import")
            keys.append(setting.key)
            assert keys[-1] == setting.key
    finally:
        SAMPLERS.unregister("own")
        del sys.modules[str(file)]
    assert keys[0] != keys[1]
    assert Setting({"sampler": "remdm"}).key == '{"sampler": "remdm"}'


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"setings": []}, "unknown key 'setings'"),
        ({"models": "mini"}, "models and tasks are lists of names"),
        ({"settings": {}}, "settings is a list of objects"),
        ({"product": {"sampler": []}}, "none of them empty"),
        ({"product": []}, "product is an object of lists"),
        ([], "holds no JSON object"),
        ("{", "is no JSON"),
        ('{"settings": [{"top_k": 5, "top_k": 9}]}', "the key 'top_k' stands twice"),
    ],
)
def test_files_that_are_none(tmp_path: Path, fields: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_grid(written(tmp_path, fields))
    with pytest.raises(ConfigError, match="no grid"):
        read_grid(tmp_path / "nothing.json")


def test_an_editors_mark_of_utf_8_is_no_part_of_a_grid(tmp_path: Path) -> None:
    (path := tmp_path / "grid.json").write_text('{"tasks": ["ordering"]}', encoding="utf-8-sig")
    assert read_grid(path).tasks == ("ordering",)


@pytest.mark.parametrize(
    ("fields", "option"),
    [
        ({"tasks": ["chess"]}, "task"),
        ({"settings": [{"samplr": "x"}]}, "samplr"),
        ({"settings": [{"seed": 1}]}, "seed"),
        ({"settings": [{}, {}]}, "settings"),
        ({"settings": [{"check": "task"}]}, "check"),
        ({"settings": [{"best_of": 2.5}]}, "best_of"),
        ({"settings": [{"best_of": 2, "check": 5}]}, "check"),
    ],
)
def test_grids_that_compare_nothing(tmp_path: Path, fields: Any, option: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_grid(written(tmp_path, fields))
    assert caught.value.option == option


@pytest.mark.parametrize(
    ("names", "option"),
    [({"tasks": ("arithmetic", "ordering", "arithmetic")}, "task"), ({"models": ("mini", "mini")}, "model")],
)
def test_the_same_is_not_compared_with_itself(names: dict[str, Any], option: str) -> None:
    with pytest.raises(OptionError, match=f"the same {option} stands twice: ") as refusal:
        Grid(**names)
    assert refusal.value.option == option
