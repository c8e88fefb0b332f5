"""Compiled kernels that are kept on disk: read where they are whole and the user's own, compiled anew otherwise."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from llvmlite import binding

from gesso.kernels.host import object_cache
from gesso.kernels.host.compilation import compile_arrays
from gesso.kernels.host.llvm_ir import I64, POINTER, VOID, Writer, constant, ir

NAME, CODE = "a" * 64, b"some code"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(object_cache.VARIABLE, str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each time that a module goes through LLVM's passes."""
    found, make = list[str](), binding.create_pass_builder

    def counted(*arguments: Any) -> Any:
        found.append("compiled")
        return make(*arguments)

    monkeypatch.setattr(binding, "create_pass_builder", counted)
    return found


def added(number: int) -> int:
    """What a kernel says that is compiled, or read, now: it adds this number to 41."""
    import ctypes

    module = ir.Module("test_object_cache")
    build = Writer(module, "add", VOID, [POINTER, I64])
    memory, given = build.made.args
    build.store(build.add(given, constant(number)), build.at(memory, constant(0), I64))
    build.ret_void()
    held = ctypes.c_int64()
    compile_arrays(module, {"add": (1, 1, 0)})["add"](ctypes.addressof(held), 41)
    return held.value


def test_what_was_compiled_is_read(place: Path, compiled: list[str]) -> None:
    assert [added(1), added(1), added(2), added(1), added(2)] == [42, 42, 43, 42, 43]
    assert len(compiled) == len(list(place.iterdir())) == 2


@pytest.mark.parametrize("spoil", [lambda code: code[:-1], lambda code: code[:-1] + b"\0\1", lambda _: b""])
def test_a_file_that_is_spoilt_is_compiled_anew(place: Path, compiled: list[str], spoil: Any) -> None:
    added(1)
    (file,) = place.iterdir()
    whole = file.read_bytes()
    file.write_bytes(spoil(whole))
    assert added(1) == 42
    assert len(compiled) == 2
    assert file.read_bytes() == whole


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such permissions")
@pytest.mark.parametrize("who", ["folder", "file"])
def test_what_others_may_write_is_not_read(place: Path, who: str) -> None:
    object_cache.keep(NAME, CODE)
    assert object_cache.read(NAME) == CODE
    (place if who == "folder" else place / NAME).chmod(0o777)
    assert object_cache.read(NAME) is None
    object_cache.keep("b" * 64, CODE)
    assert (place / ("b" * 64)).exists() == (who == "file")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there are no such owners")
def test_what_is_another_users_is_not_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    object_cache.keep(NAME, CODE)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert object_cache.read(NAME) is None


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such permissions")
@pytest.mark.parametrize("umask", [0o022, 0o002, 0o000])
def test_folder_and_files_are_the_users_alone(place: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        object_cache.keep(NAME, CODE)
    finally:
        os.umask(before)
    assert place.stat().st_mode & 0o777 == 0o700
    assert (place / NAME).stat().st_mode & 0o777 == 0o600
    assert object_cache.read(NAME) == CODE


def test_without_a_folder_everything_is_compiled(
    place: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write_text("no folder")
    assert (added(1), added(1)) == (42, 42)
    monkeypatch.setenv(object_cache.VARIABLE, "")
    assert (added(1), added(1)) == (42, 42)
    assert len(compiled) == 4


def test_the_oldest_files_go(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_cache, "MOST_FILES", 3)
    for age, name in enumerate("abcde"):
        object_cache.keep(name, CODE)
        os.utime(place / name, (time.time() - 10 + age,) * 2)
    assert sorted(path.name for path in place.iterdir()) == ["c", "d", "e"]


def test_where_it_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(object_cache.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert object_cache.folder() == tmp_path / "gesso" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert object_cache.folder() == tmp_path / ".cache" / "gesso" / "kernels"

    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    assert object_cache.folder() is None


PRODUCTS = """
import hashlib, torch
from llvmlite import binding
from gesso.kernels.host import packed
from gesso.nn.quant.integer import Int4, Int8
count, make = [], binding.create_pass_builder
binding.create_pass_builder = lambda *arguments: count.append(1) or make(*arguments)
x = torch.randn(20, 128, generator=torch.Generator().manual_seed(0))
w = torch.randn(64, 128, generator=torch.Generator().manual_seed(1))
found = [packed.matmul(x[:rows], form.kernel, form.quantize(w)) for form in (Int8(), Int4()) for rows in (1, 20)]
print(len(count), hashlib.sha256(b"".join(each.numpy().tobytes() for each in found)).hexdigest())
"""


def test_another_process_reads_it_and_says_the_same(place: Path) -> None:
    told = [
        subprocess.run([sys.executable, "-c", PRODUCTS], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert told[0][1] == told[1][1]
    assert int(told[0][0]) >= 2
    assert told[1][0] == "0"
