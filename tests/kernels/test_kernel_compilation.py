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
