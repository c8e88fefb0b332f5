"""What quantizing a checkpoint and loading the result hold at their peak, in processes of their own."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
from oracle import Shape, random_model

from gesso.models.saving import save_folder

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from Linux's /proc")

MEASURE = """
import shutil, sys, torch
from pathlib import Path
from gesso.models.loading import load_folder
from gesso.models.quantization.plan import Quantization
from gesso.models.quantization.convert import quantize_folder
from gesso.nn.quant.integer import Int4
torch.set_num_threads(1)

def load(source, out):
    return load_folder(source, "cpu", "bfloat16")

def quantize(source, out):
    shutil.rmtree(out, ignore_errors=True)
    quantize_folder(source, out, Quantization(Int4(), Int4()))

def quantize_table(source, out):
    shutil.rmtree(out, ignore_errors=True)
    quantize_folder(source, out, Quantization(embedding=Int4()))

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024

job, small, source, out = globals()[sys.argv[1]], *map(Path, sys.argv[2:])
job(small, out / "warm")
Path("/proc/self/clear_refs").write_text("5")
start = peak()
kept = job(source, out / "measured")
print(peak() - start)
"""


def measure(job: str, small: Path, source: Path, out: Path) -> int:
    """Bytes that a job holds at its peak, in a process of its own that did a smaller one before."""
    command = [sys.executable, "-c", MEASURE, job, *map(str, (small, source, out))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def holds(most: float, job: str, small: Path, source: Path, out: Path) -> bool:
    """Whether a job holds so many bytes at most, in one of three runs: pages that the system took from a process and
    gives back count as its own once more."""
    return any(measure(job, small, source, out) <= most for _ in range(3))


def weights(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def test_quantizing_holds_a_layer_and_loading_the_quantized_weights(tmp_path: Path) -> None:
    layers = 4
    wide = Shape("sssf", hidden=256, mlp=256, head_dim=64, full_head_dim=64, experts=64, expert_size=256)
    small, source, out = tmp_path / "small", tmp_path / "source", tmp_path / "out"
    save_folder(random_model(Shape("f", hidden=64, mlp=64, head_dim=16, expert_size=64)), small)
    save_folder(random_model(wide), source, dtype="bfloat16")
    assert holds(1.5 * weights(source) / layers, "quantize", small, source, out)
    assert holds(1.2 * weights(out / "measured"), "load", out / "warm", out / "measured", out)


def test_quantizing_a_table_holds_no_copy_of_it(tmp_path: Path) -> None:
    """Pages of the file that is read count as held, and so do the packed table and the bytes that are written of it:
    1.6 of what the table takes in bfloat16. One copy in fp32 would be two more, and packing makes several."""
    small, source = tmp_path / "small", tmp_path / "source"
    shape = Shape("f", hidden=64, mlp=64, head_dim=16, expert_size=64)
    save_folder(random_model(shape), small)
    save_folder(random_model(dataclasses.replace(shape, vocab=1 << 19)), source, dtype="bfloat16")
    assert holds(2.5 * weights(source), "quantize_table", small, source, tmp_path / "out")
