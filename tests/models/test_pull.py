"""Whole checkpoints from a Hub that breaks: what arrives, what is checked, and what is refused before it."""

import hashlib
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest
import torch
from oracle import Shape, random_model
from safetensors.torch import load_file

from gesso.errors import CheckpointError, HubError, OptionError
from gesso.models import pull
from gesso.models.hub import resolve
from gesso.models.loading import load_folder
from gesso.models.pull import pull_whole, remote_bytes
from gesso.models.pull_folder import INCOMPLETE, LOCK
from gesso.models.remote import look_up
from gesso.models.saving import save_folder
from models import breaking_hub
from models.breaking_hub import FIRST, REPO, SECOND, Hub, point_at, serving, write_in_two


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint in two files. Do not write into it."""
    folder = tmp_path_factory.mktemp("pull") / "source"
    save_folder(random_model(Shape("sf", hidden=64, mlp=64, head_dim=16, expert_size=64)), folder, dtype="bfloat16")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    write_in_two(folder, tensors)
    (folder / "chat_template.jinja").write_text("{{ messages }}", "utf-8")
    (folder / "README.md").write_text("not fetched", "utf-8")
    return folder


@pytest.fixture
def hub(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(Hub(source)) as served:
        point_at(served, tmp_path / "cache", monkeypatch)
        monkeypatch.chdir(tmp_path)
        yield served


def size(hub: Hub, file: str) -> int:
    return (hub.folder / file).stat().st_size


def test_it_lies_in_the_cache_where_its_name_finds_it(hub: Hub) -> None:
    taken: list[int] = []
    folder = pull_whole(look_up(REPO), None, taken.append)
    assert sum(taken) == size(hub, FIRST) + size(hub, SECOND)
    assert resolve(REPO, offline=True) == folder
    assert (folder / FIRST).read_bytes() == (hub.folder / FIRST).read_bytes()
    assert not (folder / "README.md").exists()
    first = load_folder(folder, "cpu").state_dict()
    assert all(torch.equal(first[name], part) for name, part in load_folder(hub.folder, "cpu").state_dict().items())
    hub.asked.clear()
    assert pull_whole(look_up(REPO), None) == folder  # compared, and not fetched again
    assert hub.ranges(FIRST) == []


def test_it_lies_in_a_folder(hub: Hub, tmp_path: Path) -> None:
    assert pull_whole(look_up(REPO), tmp_path / "mine") == tmp_path / "mine"
    found = {path.name for path in (tmp_path / "mine").iterdir() if path.is_file()}
    assert found == {path.name for path in hub.folder.iterdir()} - {"README.md"}
    load_folder(tmp_path / "mine", "cpu")


def test_connections_that_break_are_gone_on_with(hub: Hub, tmp_path: Path) -> None:
    hub.breaks[FIRST] = [1000, 0, 1, 5000]
    hub.statuses[SECOND] = [503, 429]
    folder = pull_whole(look_up(REPO), tmp_path / "mine")
    assert (folder / FIRST).read_bytes() == (hub.folder / FIRST).read_bytes()
    last = size(hub, FIRST) - 1
    assert hub.ranges(FIRST) == [f"bytes={begin}-{last}" for begin in (0, 1000, 1000, 1001, 6001)]


def test_what_a_connection_brought_before_its_reset_is_kept(hub: Hub, tmp_path: Path) -> None:
    hub.resets, hub.breaks[FIRST] = True, [1000] * 7  # more than may bring nothing
    folder = pull_whole(look_up(REPO), tmp_path / "mine")
    assert (folder / FIRST).read_bytes() == (hub.folder / FIRST).read_bytes()
    last = size(hub, FIRST) - 1
    assert hub.ranges(FIRST) == [f"bytes={1000 * number}-{last}" for number in range(8)]


def test_a_repository_that_was_renamed_is_given_the_token(hub: Hub) -> None:
    hub.renamed_from = "acme/bard"
    model, remote = look_up(REPO), next(file for file in look_up(REPO).files if file.name == FIRST)
    assert remote_bytes(replace(model, repo="acme/bard"), remote).read(0, 9) == (hub.folder / FIRST).read_bytes()[:9]
    assert hub.asked[-1] == ("GET", FIRST, "bytes=0-8", True)


def test_what_was_broken_off_goes_when_another_program_brought_the_file(hub: Hub) -> None:
    hub.breaks[FIRST] = [1000, *[0] * 10]
    with pytest.raises(HubError, match=r"broke off 6 times"):
        pull_whole(look_up(REPO), None)
    hub.breaks.clear()
    folder = resolve(REPO, progress=False)
    assert list(folder.parents[1].rglob(f"*{INCOMPLETE}"))
    pull_whole(look_up(REPO), None)
    assert not list(folder.parents[1].rglob(f"*{INCOMPLETE}"))


def test_another_process_goes_on_where_one_broke_off(hub: Hub, tmp_path: Path) -> None:
    hub.breaks[FIRST] = [1000, *[0] * 10]
    with pytest.raises(HubError, match=r"broke off 6 times in a row .*the same command again goes on"):
        pull_whole(look_up(REPO), tmp_path / "mine")
    assert [path.stat().st_size for path in (tmp_path / "mine").glob(f"*{INCOMPLETE}")] == [1000]
    hub.breaks.clear()
    hub.asked.clear()
    pull_whole(look_up(REPO), tmp_path / "mine")
    assert hub.ranges(FIRST) == [f"bytes=1000-{size(hub, FIRST) - 1}"]
    assert (tmp_path / "mine" / FIRST).read_bytes() == (hub.folder / FIRST).read_bytes()


@pytest.mark.parametrize("out", [None, "mine"])
def test_one_process_at_a_time_fetches_a_file(hub: Hub, tmp_path: Path, out: str | None) -> None:
    place, refused = tmp_path / out if out else None, []

    def meanwhile(taken: int) -> None:
        with pytest.raises(OptionError, match=r"is being fetched by another process") as info:
            pull_whole(look_up(REPO), place)
        refused.append(info.value)

    hub.breaks[SECOND] = [1000]
    folder = pull_whole(look_up(REPO), place, meanwhile)
    assert len(refused) > 2
    for file in FIRST, SECOND:
        assert (folder / file).read_bytes() == (hub.folder / file).read_bytes()
    assert not list(tmp_path.rglob(f"*{LOCK}"))
    # One that was killed leaves the file of its lock, and no lock.
    target = (folder / FIRST).resolve()
    target.with_name(target.name + LOCK).touch()
    pull_whole(look_up(REPO), place)
    assert not list(tmp_path.rglob(f"*{LOCK}"))


def test_a_lock_whose_file_was_removed_is_none(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(file: BinaryIO, refusal: str, option: str) -> None:
        (tmp_path / "mine" / (FIRST + LOCK)).unlink()  # the process that had it has ended just now

    monkeypatch.setattr(pull, "hold", late)
    with pytest.raises(OptionError, match=r"is being fetched by another process"):
        pull_whole(look_up(REPO), tmp_path / "mine")


@pytest.mark.parametrize("out", [None, "mine"])
def test_wrong_bytes_are_found_and_removed(hub: Hub, tmp_path: Path, out: str | None) -> None:
    hub.damaged.add(SECOND)
    place = tmp_path / out if out else None
    with pytest.raises(HubError, match=f"{SECOND} arrived damaged"):
        pull_whole(look_up(REPO), place)
    sums = {hashlib.sha256((hub.folder / file).read_bytes()).hexdigest() for file in (FIRST, SECOND)}
    left = [path for path in tmp_path.rglob("*") if path.name.startswith(SECOND) or path.stem in sums]
    assert len(left) == (0 if out else 1)  # the first one's content
    hub.damaged.clear()
    load_folder(pull_whole(look_up(REPO), place), "cpu")


def test_a_damaged_text_is_found(hub: Hub, tmp_path: Path) -> None:
    hub.damaged.add("chat_template.jinja")
    with pytest.raises(HubError, match=r"chat_template\.jinja arrived damaged"):
        pull_whole(look_up(REPO), None)
    hub.damaged.clear()
    folder = pull_whole(look_up(REPO), None)
    assert (folder / "chat_template.jinja").read_text("utf-8") == "{{ messages }}"


def test_what_is_here_and_was_damaged_since_is_fetched_again(hub: Hub, tmp_path: Path) -> None:
    folder = pull_whole(look_up(REPO), tmp_path / "mine")
    with (folder / FIRST).open("r+b") as file:
        file.write(b"\0\0\0\0")
    taken: list[int] = []
    pull_whole(look_up(REPO), folder, taken.append)
    assert sum(taken) == size(hub, FIRST) + size(hub, SECOND)
    assert (folder / FIRST).read_bytes() == (hub.folder / FIRST).read_bytes()


def test_sizes_that_are_lies_are_refused(hub: Hub, tmp_path: Path) -> None:
    hub.sizes[FIRST] = size(hub, FIRST) + 7
    with pytest.raises(HubError, match=r"has \d+ bytes on its server, and the Hub says \d+"):
        pull_whole(look_up(REPO), tmp_path / "mine")


def test_a_size_that_is_no_number_is_refused(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = breaking_hub.entry
    monkeypatch.setattr(breaking_hub, "entry", lambda path: {**entry(path), "size": "12"})
    with pytest.raises(HubError, match="the Hub does not say how large"):
        look_up(REPO)


def test_an_address_that_is_none_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.elsewhere = "http://[::bad"
    with pytest.raises(HubError, match=f"the server sends to an address of {FIRST} that is none: Invalid IPv6 URL"):
        pull_whole(look_up(REPO), tmp_path / "mine")


def test_of_a_server_that_sends_whole_files_only_what_is_there_is_left_out(hub: Hub, tmp_path: Path) -> None:
    """As proxies do: it breaks, breaks again before the place where it broke, and goes on behind it."""
    hub.whole_only = True
    hub.breaks[FIRST] = [size(hub, FIRST) // 2, 1000]
    taken: list[int] = []
    folder = pull_whole(look_up(REPO), tmp_path / "mine", taken.append)
    assert (folder / FIRST).read_bytes() == (hub.folder / FIRST).read_bytes()
    assert sum(taken) == size(hub, FIRST) + size(hub, SECOND)
    assert len(hub.ranges(FIRST)) == 3
    model, file = look_up(REPO), next(file for file in look_up(REPO).files if file.name == FIRST)
    assert remote_bytes(model, file).read(8, 20) == (hub.folder / FIRST).read_bytes()[8:20]


def test_a_server_that_never_gets_as_far_as_before_is_given_up(hub: Hub, tmp_path: Path) -> None:
    hub.whole_only = True
    hub.breaks[FIRST] = [2000, *[1000] * 20]
    with pytest.raises(HubError, match="broke off 6 times in a row"):
        pull_whole(look_up(REPO), tmp_path / "mine")
    assert len(hub.ranges(FIRST)) == 6


def test_a_repository_of_gguf_files_says_who_fetches_them(hub: Hub, tmp_path: Path) -> None:
    hub.folder = tmp_path / "files"
    hub.folder.mkdir()
    (hub.folder / "poet-Q8_0.gguf").write_bytes(b"GGUF")
    with pytest.raises(HubError, match="gesso pull fetches nothing else") as refused:
        look_up(f"{REPO}@main")
    assert f"gesso quantize {REPO}/poet-Q8_0.gguf@main --to int8 --out FOLDER" in (refused.value.hint or "")
    (hub.folder / "poet-Q8_0.gguf").rename(hub.folder / "poet.bin")
    with pytest.raises(HubError) as refused:
        look_up(REPO)
    assert refused.value.hint is None


def test_the_disk_is_asked_before_a_weight_is_fetched(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    free = size(hub, FIRST) + size(hub, SECOND) - 1
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(0, 0, free))
    for out, said in (None, f"{REPO} needs"), (tmp_path / "mine", "--out .* needs"):
        with pytest.raises(OptionError, match=f"{said} .* KB, and its disk has .* KB free"):
            pull_whole(look_up(REPO), out)
    assert hub.ranges(FIRST) == []
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(0, 0, free + 1))
    pull_whole(look_up(REPO), tmp_path / "mine")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(0, 0, 0))
    pull_whole(look_up(REPO), tmp_path / "mine")  # what is there needs no room


def test_progress_takes_back_what_a_wrong_file_counted(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / FIRST).write_bytes(b"0123456789")
    taken: list[int] = []
    pull_whole(look_up(REPO), tmp_path / "mine", taken.append)
    assert sum(taken) == size(hub, FIRST) + size(hub, SECOND)


def test_a_full_disk_and_ctrl_c_lose_nothing(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gesso.models.byte_stream.PIECE", 1000)
    for error in OSError(28, "No space left on device"), KeyboardInterrupt():

        def stop(taken: int, error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error)) as caught:
            pull_whole(look_up(REPO), tmp_path / "mine", stop)
        if isinstance(caught.value, OSError):
            assert str(caught.value.filename).startswith(str(tmp_path / "mine" / FIRST)), "which disk is full"
    begun = sum(path.stat().st_size for path in (tmp_path / "mine").glob(f"{FIRST}.*{INCOMPLETE}"))
    assert begun > 0
    hub.asked.clear()
    pull_whole(look_up(REPO), tmp_path / "mine")
    assert hub.ranges(FIRST) == [f"bytes={begun}-{size(hub, FIRST) - 1}"]


def test_the_token_goes_to_the_hub_alone(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Hub(hub.folder)) as other:
        hub.elsewhere = other.url.replace("127.0.0.1", "localhost")
        pull_whole(look_up(REPO), tmp_path / "mine")
        files = {path.name for path in hub.folder.iterdir()}  # the library asks for lists of its own, once in a process
        assert {token for _, name, _, token in hub.asked if name in files} == {True}
        assert {(name, token) for _, name, _, token in other.asked} == {(FIRST, False), (SECOND, False)}


def test_what_is_no_model_of_ours_is_refused(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.safetensors").write_bytes(b"x" * 100)
    (other / "config.json").write_text('{"model_type": "gemma"}', "utf-8")
    hub.folder = other
    with pytest.raises(CheckpointError, match="gemma"):
        pull_whole(look_up(REPO), None)
    assert hub.ranges("model.safetensors") == []
    (other / "config.json").unlink()
    with pytest.raises(HubError, match=r"holds no config\.json with safetensors weights"):
        look_up(REPO)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="offline mode is on"):
        look_up(REPO)


def test_a_refused_file_says_so(hub: Hub, tmp_path: Path) -> None:
    hub.statuses[FIRST] = [403]
    with pytest.raises(HubError, match=f"the server refused {FIRST} .HTTP status 403.; log in with"):
        pull_whole(look_up(REPO), tmp_path / "mine")
    assert pull.weight_files(look_up(REPO), hub.folder)[0].name == FIRST
