"""A folder that another revision is pulled into: at no time is it a mixture of two that loads."""

from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from oracle import Shape, random_model
from safetensors.torch import load_file

from gesso.errors import CheckpointError, HubError, OptionError
from gesso.models.hub import resolve
from gesso.models.loading import load_folder
from gesso.models.pull import pull_whole
from gesso.models.pull_folder import incomplete, stale_files
from gesso.models.remote import look_up
from gesso.models.saving import save_folder
from gesso.models.weight_index import INDEX
from models.breaking_hub import FIRST, REPO, SECOND, Hub, point_at, serving, write_in_two

SINGLE = "model.safetensors"
SMALL = Shape("sf", hidden=64, mlp=64, head_dim=16, expert_size=64)


@pytest.fixture(scope="module")
def revisions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Revisions of one model: in two files with a template and more, with other weights, in one. Do not write there."""
    place = tmp_path_factory.mktemp("revisions")
    made = {name: place / name for name in ("split", "changed", "single")}
    model = random_model(SMALL)
    for name, folder in made.items():
        save_folder(model, folder, dtype="bfloat16")
        if name == "single":
            (folder / "generation_config.json").unlink()
            continue
        tensors = load_file(folder / SINGLE)
        (folder / SINGLE).unlink()
        write_in_two(folder, {key: tensor + (name == "changed") for key, tensor in tensors.items()})
        (folder / "chat_template.jinja").write_text("{{ messages }}", "utf-8")
        (folder / "gesso.json").write_text("{}", "utf-8")
    return made


@pytest.fixture
def hub(revisions: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(Hub(revisions["split"])) as served:
        point_at(served, tmp_path / "cache", monkeypatch)
        yield served


@pytest.fixture
def mine(hub: Hub, tmp_path: Path) -> Path:
    """A folder with the first revision, and a file of its owner's."""
    folder = pull_whole(look_up(REPO), tmp_path / "mine")
    (folder / "notes.json").write_text("{}", "utf-8")
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("name", ["changed", "single"])
def test_another_revision_takes_the_place_of_the_first(
    hub: Hub, revisions: dict[str, Path], mine: Path, name: str
) -> None:
    for file in FIRST, SINGLE:
        (mine / f"{file}.gesso-incomplete").touch()
    hub.folder = revisions[name]
    pull_whole(look_up(REPO), mine)
    left = files(mine)
    assert left.pop("notes.json") == b"{}"
    assert left == files(revisions[name])
    found, expected = load_folder(mine, "cpu").state_dict(), load_folder(revisions[name], "cpu").state_dict()
    assert all(torch.equal(found[key], expected[key]) for key in expected)


@pytest.mark.parametrize(("name", "file"), [("changed", FIRST), ("changed", SECOND), ("single", SINGLE)])
def test_what_is_broken_off_does_not_load(
    hub: Hub, revisions: dict[str, Path], mine: Path, name: str, file: str
) -> None:
    hub.folder = revisions[name]
    hub.breaks[file] = [1000, *[0] * 10]
    with pytest.raises(HubError, match="broke off"):
        pull_whole(look_up(REPO), mine)
    with pytest.raises(CheckpointError, match=r"config\.json is missing"):
        load_folder(mine, "cpu")
    with pytest.raises(HubError, match=r"mine is a download that is not finished: the same gesso pull goes on"):
        resolve(str(mine))
    hub.breaks.clear()
    pull_whole(look_up(REPO), mine)
    load_folder(mine, "cpu")


def test_a_revision_that_is_refused_leaves_the_first(
    hub: Hub, revisions: dict[str, Path], mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(mine)
    hub.folder = tmp_path / "other"
    hub.folder.mkdir()
    (hub.folder / "config.json").write_text('{"model_type": "gemma"}', "utf-8")
    (hub.folder / SINGLE).write_bytes(b"x" * 100)
    with pytest.raises(CheckpointError, match="gemma"):
        pull_whole(look_up(REPO), mine)
    assert files(mine) == before
    hub.folder = revisions["changed"]
    (mine / FIRST).rename(tmp_path / FIRST)  # whose room another file needs now
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(0, 0, 0))
    with pytest.raises(OptionError, match=r"--out .* needs"):
        pull_whole(look_up(REPO), mine)
    assert files(mine) == {name: content for name, content in before.items() if name != FIRST}


def test_what_goes_makes_room(
    hub: Hub, revisions: dict[str, Path], mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.folder = revisions["single"]
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(0, 0, 10_000))  # what headers take, and some
    pull_whole(look_up(REPO), mine)
    left = files(mine)
    assert left.pop("notes.json") == b"{}"
    assert left == files(revisions["single"])


def test_what_is_as_it_should_be_loads_meanwhile(hub: Hub, mine: Path) -> None:
    seen: list[bool] = []
    hub.asked.clear()
    pull_whole(look_up(REPO), mine, lambda taken: seen.append((mine / "config.json").exists()))
    assert seen
    assert all(seen)
    assert not [name for method, name, *_ in hub.asked if name in files(hub.folder)]


def test_an_index_that_the_hub_does_not_have_is_not_read(hub: Hub, revisions: dict[str, Path], tmp_path: Path) -> None:
    hub.folder = revisions["single"]
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / INDEX).write_text('{"weight_map": {"a": "b"}}', "utf-8")
    pull_whole(look_up(REPO), mine)
    assert not (mine / INDEX).exists()


def test_a_file_is_no_folder(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match=r"--out .*file is a file, and a checkpoint is a folder") as refused:
        pull_whole(look_up(REPO), tmp_path / "file")
    assert refused.value.option == "out"


def test_what_belongs_to_no_checkpoint_stays(hub: Hub, mine: Path) -> None:
    model = look_up(REPO)
    own = ["processor.py", "tokenizer_notes.md", "model-best.safetensors", "chat_template_draft.txt", "mine.json"]
    old = ["model-00009-of-00009.safetensors", "added_tokens.json", "model.safetensors.index.json.gesso-incomplete"]
    old += [f"{FIRST}.{16 * '0'}.gesso-incomplete", "tokenizer.json.gesso-incomplete", "tokenizer.model.gesso-lock"]
    own += [incomplete(mine / file.name, file).name for file in model.files] + [f"{FIRST}.gesso-lock"]
    for name in (*own, *old):
        (mine / name).write_text("x", "utf-8")
    assert sorted(path.name for path in stale_files(model, mine)) == sorted(old)


def test_a_revision_does_not_go_on_with_the_bytes_of_another(
    hub: Hub, revisions: dict[str, Path], tmp_path: Path
) -> None:
    hub.breaks[FIRST] = [(hub.folder / FIRST).stat().st_size - 100, *[0] * 10]
    with pytest.raises(HubError, match="broke off"):
        pull_whole(look_up(REPO), tmp_path / "mine")
    hub.breaks.clear()
    hub.folder = revisions["changed"]
    hub.asked.clear()
    pull_whole(look_up(REPO), tmp_path / "mine")
    assert (tmp_path / "mine" / FIRST).read_bytes() == (hub.folder / FIRST).read_bytes()
    assert [file for method, file, *_ in hub.asked if method == "GET" and file in (FIRST, SECOND)] == [FIRST, SECOND]
    assert not list((tmp_path / "mine").glob("*.gesso-*"))
