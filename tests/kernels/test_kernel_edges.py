"""What kernels read of memory: nothing behind the end of a packed matrix, where another's may begin, or none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gesso

pytestmark = pytest.mark.numbers
pytest.importorskip("llvmlite")

AT_THE_EDGE = """
import ctypes, mmap, torch
from gesso.kernels.host import packed
from gesso.kernels.host.library import best_dot
from gesso.nn.quant.fp8 import FP8
from gesso.nn.quant.integer import Int4, Int8
from gesso.nn.quant.nf4 import NF4
from gesso.nn.quant.nvfp4 import NVFP4

PAGE, held = mmap.PAGESIZE, []
dots = {best_dot(), "vnni256"} if best_dot() in ("amx", "vnni512") else {best_dot()}  # wide registers, and others
protect = ctypes.CDLL(None).mprotect
protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

def at_the_edge(part):
    size = part.numel() * part.element_size()
    pages = -(-size // PAGE) * PAGE
    memory = mmap.mmap(-1, pages + PAGE)
    held.append(memory)
    assert protect(ctypes.addressof(ctypes.c_char.from_buffer(memory)) + pages, PAGE, 0) == 0
    moved = torch.frombuffer(memory, dtype=torch.uint8, count=size, offset=pages - size)
    return moved.view(part.dtype).view(part.shape).copy_(part)

for form in (Int8(), Int4(), Int4(32), Int4(128), NF4(), NVFP4(), FP8()):
    for blocks in (1, 3, 4, 7, 10, 11, 16, 18, 33):
        if blocks % 2 and form == Int4(128):
            continue
        for rows in (1, 16, 17):
            parts = form.quantize(torch.randn(rows, 64 * blocks))
            moved = tuple(map(at_the_edge, parts))
            for count in (1, 2, 4, 17):
                x = torch.randn(count, 64 * blocks)
                for dot in dots:
                    found = packed.matmul(x, form.kernel, moved, dot=dot)
                    assert torch.equal(packed.matmul(x, form.kernel, parts, dot=dot), found)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for memory that must not be read")
def test_nothing_behind_a_matrix_is_read() -> None:
    """In a process of its own, which ends where it reads what it must not."""
    paths = os.pathsep.join(filter(None, (str(Path(gesso.__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-W", "ignore", "-c", AT_THE_EDGE]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, timeout=300, check=False)
    assert done.returncode == 0
