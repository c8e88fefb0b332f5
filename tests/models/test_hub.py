"""Model names into folders, with a faked Hub and a cache made by hand: no network."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors

from gesso.errors import HubError
from gesso.models import hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "fedcba9876543210fedcba9876543210fedcba98"


def checkpoint(folder: Path, *, model_type: str = "diffusion_gemma", weights: bytes = b"12345") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def sharded(folder: Path, present: int, shards: int = 3) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "diffusion_gemma"}))
    names = [f"model-{i + 1:05d}-of-{shards:05d}.safetensors" for i in range(shards)]
    weight_map = {f"tensor.{i}": name for i, name in enumerate(names)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    for name in names[:present]:
        (folder / name).write_bytes(b"123")
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Hub cache, and a working folder with nothing in it."""
    folder = tmp_path / "hub"
    folder.mkdir()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that bundles `mini` and `sudoku`."""
    folder = tmp_path / "bundled"
    checkpoint(folder / "mini")
    checkpoint(folder / "sudoku")
    (folder / "unfinished").mkdir()
    monkeypatch.setattr(hub, "_bundled_folder", lambda: folder)
    return folder


def snapshot(cache: Path, repo: str, commit: str = COMMIT, ref: str | None = "main") -> Path:
    """Where a snapshot of `repo` lies in the cache, with its ref written."""
    folder = cache / f"models--{repo.replace('/', '--')}"
    if ref is not None:
        (folder / "refs").mkdir(parents=True, exist_ok=True)
        (folder / "refs" / ref).write_text(commit)
    (folder / "snapshots" / commit).mkdir(parents=True)
    return folder / "snapshots" / commit


def fake_download(monkeypatch: pytest.MonkeyPatch, result: Path | Exception) -> dict[str, Any]:
    """Replace `snapshot_download`; returns the arguments it will have been called with."""
    seen: dict[str, Any] = {}

    def download(repo: str, **options: Any) -> str:
        seen.update(options, repo=repo)
        if isinstance(result, Exception):
            raise result
        return str(result)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return seen


def hub_error(kind: type[errors.HfHubHTTPError], status: int) -> errors.HfHubHTTPError:
    response = type("Response", (), {"status_code": status, "headers": {}, "request": None})()
    error = kind.__new__(kind)
    Exception.__init__(error, f"{status} Client Error\nfor url: https://example.org")
    error.response = response  # type: ignore[assignment]
    return error


def refused(name: str, **options: bool) -> str:
    with pytest.raises(HubError) as caught:
        hub.resolve(name, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


# Local folders


def test_a_local_folder_is_itself(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "mine")
    assert hub.resolve(str(folder)) == folder


def test_a_folder_without_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no config.json" in refused(str(tmp_path / "empty"))


def test_the_folder_of_a_run_is_told_from_others(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(HubError) as caught:
        hub.resolve(str(tmp_path))
    assert caught.value.hint == f"that is an adapter: give its base as the model, and --adapter {tmp_path}"


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_text("x")
    assert "is a file" in refused(str(tmp_path / "weights.bin"))


# Bundled names


def test_bundled_names_are_folders_with_a_config(shipped: Path) -> None:
    assert hub.bundled() == ["mini", "sudoku"]


def test_a_bundled_name(shipped: Path) -> None:
    assert hub.resolve("mini") == shipped / "mini"


def test_a_bundled_name_wins_over_a_folder_that_is_no_checkpoint(shipped: Path) -> None:
    Path("mini").mkdir()
    assert hub.resolve("mini") == shipped / "mini"


def test_a_local_checkpoint_wins_over_a_bundled_name(shipped: Path) -> None:
    checkpoint(Path("mini"))
    assert hub.resolve("mini") == Path("mini")


def test_nothing_is_bundled_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_bundled_folder", lambda: tmp_path / "none")
    assert hub.bundled() == []
    assert "none here" in refused("mini")


@pytest.mark.parametrize("name", ["", "mni", "runs/mini/step-10", "./mini", "/nowhere/at-all", "~nobody/x", "x" * 5000])
def test_a_name_that_is_nothing(name: str, shipped: Path) -> None:
    message = refused(name)
    assert "no model" in message
    assert "mini, sudoku" in message


def test_close_names_are_suggested(shipped: Path, cache: Path) -> None:
    checkpoint(snapshot(cache, "acme/poet-large"))
    assert "did you mean mini?" in refused("mnii")
    assert "did you mean acme/poet-large?" in refused("poet-lage")
    assert "did you mean" not in refused("zzzz")


# Hugging Face ids


def test_a_hub_id_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = fake_download(monkeypatch, sharded(tmp_path / "snap", present=3))
    assert hub.resolve("acme/poet") == tmp_path / "snap"
    assert seen["repo"] == "acme/poet"
    assert seen["revision"] is None
    assert seen["local_files_only"] is False
    assert seen["tqdm_class"] is None


def test_a_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = fake_download(monkeypatch, checkpoint(tmp_path / "snap"))
    hub.resolve("acme/poet@refs/pr/1")
    assert (seen["repo"], seen["revision"]) == ("acme/poet", "refs/pr/1")


def test_only_what_is_read_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = fake_download(monkeypatch, checkpoint(tmp_path / "snap"))
    hub.resolve("acme/poet")
    wanted = ["config.json", "tokenizer.json", "chat_template.jinja", "model-00001-of-00002.safetensors"]
    others = ["README.md", "pytorch_model.bin", "original/model.safetensors", "model.gguf"]
    kept = huggingface_hub.utils.filter_repo_objects(
        wanted + others, allow_patterns=seen["allow_patterns"], ignore_patterns=seen["ignore_patterns"]
    )
    assert list(kept) == wanted


def test_without_progress_bars_nothing_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    seen = fake_download(monkeypatch, checkpoint(tmp_path / "snap"))
    hub.resolve("acme/poet", progress=False)
    with seen["tqdm_class"](total=3, disable=False) as bar:
        bar.update(3)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("variable", [True, False])
def test_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: bool) -> None:
    seen = fake_download(monkeypatch, checkpoint(tmp_path / "snap"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", variable)
    hub.resolve("acme/poet", offline=not variable)
    assert seen["local_files_only"] is True


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (lambda: hub_error(errors.GatedRepoError, 403), ["gated", "HF_TOKEN"]),
        (lambda: hub_error(errors.RepositoryNotFoundError, 404), ["no local folder", "private", "HF_TOKEN"]),
        (lambda: hub_error(errors.RevisionNotFoundError, 404), ["no revision 'v9'"]),
        (lambda: hub_error(errors.HfHubHTTPError, 401), ["401", "hf auth login"]),
        (lambda: hub_error(errors.HfHubHTTPError, 404), ["404", "check the name"]),
        (lambda: hub_error(errors.HfHubHTTPError, 503), ["503", "later"]),
        (lambda: errors.LocalEntryNotFoundError("no"), ["not in the local", "cannot be reached"]),
        (lambda: OSError("No space left on device"), ["No space left", "goes on where it stopped"]),
        (lambda: RuntimeError("reset by peer\nmore"), ["reset by peer", "goes on where it stopped"]),
    ],
)
def test_what_the_hub_says_becomes_one_line(
    error: Callable[[], Exception], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_download(monkeypatch, error())
    message = refused("acme/poet@v9")
    assert "acme/poet" in message
    assert all(part in message for part in said)


def test_a_partial_copy_after_a_lost_network(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_download(monkeypatch, sharded(tmp_path / "snap", present=1))
    message = refused("acme/poet")
    assert "lacks model-00002-of-00003.safetensors and 1 more" in message
    assert "with network access" in message


# One GGUF file of a repository


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of which a folder is wanted."""
    files: list[Path] = []
    monkeypatch.setattr(
        "gesso.models.gguf.folder.gguf_folder", lambda path, progress: files.append(path) or path.parent
    )
    return files


@pytest.mark.parametrize(("name", "revision"), [("acme/poet-GGUF/q4.gguf", None), ("acme/poet-GGUF/q4.gguf@v9", "v9")])
def test_a_file_of_a_repository_is_fetched(
    name: str, revision: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: list[Path]
) -> None:
    seen: list[Any] = []

    def download(repo: str, file: str, **options: Any) -> str:
        seen.append((repo, file, options["revision"], options["local_files_only"]))
        return str(tmp_path / "q4.gguf")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert hub.resolve(name) == tmp_path == hub.resolve_config(name)
    assert prepared == [tmp_path / "q4.gguf"] * 2
    assert seen == [("acme/poet-GGUF", "q4.gguf", revision, False)] * 2


def test_a_file_that_a_repository_does_not_have(monkeypatch: pytest.MonkeyPatch, prepared: list[Path]) -> None:
    def download(*_: Any, **options: Any) -> str:
        raise hub_error(errors.RemoteEntryNotFoundError, 404)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert refused("acme/poet-GGUF/q9.gguf") == "acme/poet-GGUF has no file q9.gguf"
    assert not prepared


def test_a_file_that_is_not_cached_offline(cache: Path, prepared: list[Path]) -> None:
    assert "offline mode is on" in refused("acme/poet-GGUF/q4.gguf", offline=True)
    assert not prepared


def test_a_repository_of_gguf_files_says_how_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "snap").mkdir()
    fake_download(monkeypatch, tmp_path / "snap")
    assert "name the file, acme/poet-GGUF/FILE.gguf" in refused("acme/poet-GGUF")


# The real `snapshot_download`, offline, over a cache made by hand


def test_offline_finds_what_is_cached(cache: Path) -> None:
    folder = sharded(snapshot(cache, "acme/poet"), present=3)
    assert hub.resolve("acme/poet", offline=True) == folder
    assert hub.resolve(f"acme/poet@{COMMIT}", offline=True) == folder


def test_offline_and_not_cached(cache: Path) -> None:
    message = refused("acme/poet", offline=True)
    assert "not in the local Hugging Face cache" in message
    assert "offline mode is on" in message


def test_offline_and_shards_missing(cache: Path) -> None:
    sharded(snapshot(cache, "acme/poet"), present=2)
    message = refused("acme/poet", offline=True)
    assert "lacks model-00003-of-00003.safetensors" in message
    assert "offline mode is on" in message


@pytest.mark.parametrize("weight_map", [[1], {"a": 1}, {"a": 1, "b": 2}, {"a": []}, {"a": None}, "x"])
def test_an_index_that_is_damaged_is_named(cache: Path, weight_map: object) -> None:
    folder = sharded(snapshot(cache, "org/model"), present=3)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert "lacks model.safetensors.index.json (unreadable)" in refused("org/model", offline=True)
    assert hub.cached() == []


def test_a_revision_that_is_not_cached(cache: Path) -> None:
    checkpoint(snapshot(cache, "acme/poet"))
    assert "acme/poet@v9" in refused("acme/poet@v9", offline=True)


# What is in the cache


def test_cached_lists_complete_models_of_our_type(cache: Path) -> None:
    ours = checkpoint(snapshot(cache, "acme/poet"), weights=b"x" * 1000)
    checkpoint(snapshot(cache, "acme/other"), model_type="gemma4")
    tagged = sharded(snapshot(cache, "acme/tagged", OTHER, ref="v2"), present=3)
    sharded(snapshot(cache, "acme/partial"), present=1)
    (snapshot(cache, "acme/broken") / "config.json").write_text("{")
    (snapshot(cache, "acme/dangling") / "config.json").symlink_to("../../blobs/none")
    (cache / "stray").write_text("x")
    size = 1000 + (ours / "config.json").stat().st_size
    found = hub.cached()
    assert [(m.name, m.path) for m in found] == [("acme/poet", ours), ("acme/tagged@v2", tagged)]
    assert found[0].bytes == size


def test_every_cached_name_resolves_offline(cache: Path) -> None:
    checkpoint(snapshot(cache, "acme/poet"))
    checkpoint(snapshot(cache, "acme/poet", OTHER, ref=None))
    found = hub.cached()
    assert [m.name for m in found] == ["acme/poet", f"acme/poet@{OTHER}"]
    assert all(hub.resolve(m.name, offline=True) == m.path for m in found)


def test_no_cache_at_all(cache: Path) -> None:
    cache.rmdir()
    assert hub.cached() == []


def test_a_cache_in_a_home_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no name and no HOME."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", "~no-such-user/hub")
    assert hub.cached() == []


# A config alone -------------------------------------------------------------------------------------------------


def test_a_config_is_fetched_without_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint(tmp_path / "fetched")
    (folder / "model.safetensors").unlink()
    asked = fake_download(monkeypatch, folder)
    assert hub.resolve_config("acme/poet@v2") == folder
    assert (asked["repo"], asked["revision"], asked["allow_patterns"]) == ("acme/poet", "v2", ["config.json"])


def test_a_config_that_is_here_is_not_fetched(tmp_path: Path, shipped: Path) -> None:
    folder = tmp_path / "config only"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    assert hub.resolve_config(str(folder)) == folder
    name = hub.bundled()[0]
    assert hub.resolve_config(name) == shipped / name
    with pytest.raises(HubError, match="no model 'nothing'"):
        hub.resolve_config("nothing")
