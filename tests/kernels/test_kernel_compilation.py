"""Which of a processor's instructions kernels are compiled with."""

import importlib.util
import subprocess
import sys

import pytest

if importlib.util.find_spec("llvmlite") is None:
    pytest.skip("llvmlite is not installed", allow_module_level=True)

ASKED = """
from gesso.kernels.host.compilation import features
from gesso.kernels.host.library import best_dot
print([name for name, has in features().items() if has and name.startswith("avx512")], best_dot())
"""


def test_where_pytorch_does_without_avx512_kernels_do_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    told = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True).stdout
    assert told.split()[0] == "[]"
    assert told.split()[1] != "vnni512"


AT_ONCE = """
import threading, torch
from gesso.kernels.host import packed
from gesso.nn.quant.integer import Int4
parts, x = Int4().quantize(torch.randn(64, 128)), torch.randn(4, 128)
start, found = threading.Barrier(3), []
def go():
    start.wait()
    for _ in range(300):
        found.append(packed.matmul(x, "int4", parts))
together = [threading.Thread(target=go) for _ in range(3)]
for thread in together: thread.start()
for thread in together: thread.join()
assert len(found) == 900 and all(torch.equal(each, found[0]) for each in found)
"""


def test_threads_may_compile_the_same_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GESSO_KERNEL_CACHE", "")
    subprocess.run([sys.executable, "-c", AT_ONCE], check=True)  # code that is given up while it runs ends a process
