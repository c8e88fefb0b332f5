"""Rehearses what a user does with the published size on this machine: look, quantize, generate, serve, fine-tune.

    python benchmarks/fullsize.py [--layers 30] [--form whole|int4] [--folder DIR] [--threads N] [--only NAME,...]

Writes a checkpoint of the published names and sizes with random weights (`_fullsize.py`; disk is asked first), or takes
the one that is in `--folder` already, and runs the commands in processes of their own: each with its time, its largest
resident memory (mapped weights count where they were read), and its floor, which is reading its active weights at the
machine's rate for a token, and its arithmetic at the machine's matmul rate for a denoising step and for a step of
training. `--form int4` writes the packed checkpoint at once, where the disk has no room for both. The last line is
JSON.
"""

import argparse
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from _fullsize import write
from gesso.models.describe import parameters
from gesso.models.loading import read_model_config, stored_quantization
from parts import rates

TOKENS, STEPS = 6, 2
PROMPT = "Say something."
WAIT = 600.0
"""Seconds that a server may take to load."""
Figures = dict[str, Any]


def run(command: list[str]) -> tuple[Figures, str]:
    """Runs a command; returns its seconds, its largest resident memory, and what it printed.

    Raises:
        SystemExit: it failed.
    """
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    seconds = time.perf_counter() - begin
    used = {"cpu_s": round(usage.ru_utime + usage.ru_stime, 2), "peak_gb": round(usage.ru_maxrss * 1024 / 1e9, 2)}
    return {"seconds": round(seconds, 2), **used}, printed


class Rehearsal:
    """Runs each step on the checkpoint `model`."""

    def __init__(self, model: Path, work: Path, threads: int) -> None:
        self.model, self.work = model, work
        self.gesso = [sys.executable, "-m", "gesso"]
        self.threads = ["--threads", str(threads)]

    def show(self) -> Figures:
        """`gesso models show`."""
        return run([*self.gesso, "models", "show", str(self.model)])[0]

    def quantize(self) -> Figures:
        """`gesso quantize` of a whole checkpoint; what follows uses the result."""
        out = self.work / "int4"
        read = sum(path.stat().st_size for path in self.model.glob("*.safetensors"))
        command = ["quantize", str(self.model), "--to", "int4", "--embedding", "int8", "--out", str(out)]
        found, _ = run([*self.gesso, *command])
        self.model = out
        return found | {"gb_per_s": round(read / 1e9 / found["seconds"], 2)}

    def generate(self, mode: str) -> Figures:
        """`gesso generate` of a few tokens: what a user waits for, loading included."""
        tokens, steps = ["--max-new-tokens", str(TOKENS)], ["--max-denoising-steps", str(STEPS)]
        command = [*self.gesso, "generate", "--model", str(self.model), PROMPT, "--mode", mode, *tokens]
        return run([*command, *(steps if mode == "canvas" else [])])[0]

    def speed(self, mode: str) -> Figures:
        """`gesso bench`: a step beside its floor."""
        sizes = ["--prompt", "32", "--output", str(TOKENS if mode == "ar" else 256), "--mode", mode]
        steps = ["--repeats", "1", "--warmup", "1", *(["--steps", str(STEPS)] if mode == "canvas" else [])]
        found, printed = run([*self.gesso, "bench", str(self.model), *sizes, *steps, *self.threads, "--json"])
        line = json.loads(printed.splitlines()[-1])
        (cell,) = line["cells"]
        return found | {
            "step_s": round(cell["step_ms"]["median"] / 1e3, 3),
            "floor_s": round(cell["floor_ms"] / 1e3, 3),
            "times_floor": round(cell["times_floor"], 2),
            "reads_gb_s": round(line["machine"]["gb_per_s"], 2),
            "gflop_s": round(line["machine"]["matmul_gflop_per_s"], 1),
        }

    def serve(self) -> Figures:
        """`gesso serve` with two clients at a time, a few tokens each."""
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        begin = time.perf_counter()
        process = subprocess.Popen([*self.gesso, "serve", "--model", str(self.model), "--port", str(port)])
        url = f"http://127.0.0.1:{port}"
        try:
            _until_ready(f"{url}/ready", process)
            ready = time.perf_counter() - begin
            answers: list[int] = []
            with urllib.request.urlopen(f"{url}/v1/models", timeout=WAIT) as listed:
                name = json.load(listed)["data"][0]["id"]
            messages = [{"role": "user", "content": PROMPT}]
            body = {"model": name, "messages": messages, "max_tokens": TOKENS, "diffusion": {"mode": "ar"}}
            clients = [threading.Thread(target=lambda: answers.append(_post(url, body))) for _ in range(2)]
            asked = time.perf_counter()
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            took = time.perf_counter() - asked
        finally:
            usage = _end(process)
        if len(answers) != 2:
            sys.exit("gesso serve left a request without an answer")
        return {
            "ready_s": round(ready, 2),
            "tokens_per_s": round(sum(answers) / took, 2),
            "peak_gb": round(usage.ru_maxrss * 1024 / 1e9, 2),
        }

    def finetune(self) -> Figures:
        """`gesso finetune`: one step of an adapter over packed weights, QLoRA's where the checkpoint is whole.

        The step's floor is its arithmetic at the rate of fp32 matmuls, in processor seconds: of every token that was
        trained on, its active weights forward, and backward to what they read.
        """
        method = "lora" if self.packed else "qlora"
        data = self.work / "data.jsonl"
        data.write_text(json.dumps({"prompt": PROMPT, "completion": "No."}) + "\n", "utf-8")
        sizes = ["--steps", "1", "--batch-size", "1", "--held-out", "0", "--evaluate-every", "0", "--max-length", "64"]
        command = ["finetune", str(data), "--model", str(self.model), "--out", str(self.work / "run"), *sizes]
        found, _ = run([*self.gesso, *command, "--method", method])
        record = json.loads((self.work / "run" / "metrics.jsonl").read_text("utf-8").splitlines()[0])
        tokens = record["tokens_per_second"] * record["seconds"]
        operations = 4 * tokens * parameters(read_model_config(self.model))[1]
        told = {"method": method, "step_s": record["seconds"], "tokens": round(tokens)}
        return found | told | {"step_floor_cpu_s": round(operations / rates()[1], 2)}

    @property
    def packed(self) -> bool:
        """Whether the model at hand is quantized."""
        return stored_quantization(self.model) is not None


def _end(process: subprocess.Popen[bytes]) -> resource.struct_rusage:
    """Ends a server, where it has not ended by itself; returns what it used."""
    if process.poll() is not None:
        return resource.getrusage(resource.RUSAGE_CHILDREN)
    process.terminate()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage


def _until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    """Waits until the address answers.

    Raises:
        SystemExit: the server ended, or took longer than `WAIT`.
    """
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        if process.poll() is not None:
            sys.exit("gesso serve ended before it was ready")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.1)
    sys.exit(f"gesso serve was not ready after {WAIT:.0f} s")


def _post(url: str, body: dict[str, Any]) -> int:
    """Asks for a completion; returns the number of its tokens."""
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=WAIT) as answer:
        tokens: int = json.load(answer)["usage"]["completion_tokens"]
    return tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--form", choices=("whole", "int4"), default="whole")
    parser.add_argument("--folder", type=Path, help="keep the checkpoint here, or use the one that is")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="show,quantize,generate-ar,generate-canvas,ar,canvas,serve,finetune")
    options = parser.parse_args()
    console, found = Console(stderr=True), {}
    with tempfile.TemporaryDirectory(dir=options.folder and options.folder.parent) as work:
        folder = options.folder or Path(work) / "checkpoint"
        if not (folder / "config.json").exists():
            begin = time.perf_counter()
            size = write(folder, options.layers, options.form)
            found["write"] = {"seconds": round(time.perf_counter() - begin, 2), "gb": round(size / 1e9, 2)}
        rehearsal = Rehearsal(folder, Path(work), options.threads)
        steps: dict[str, Callable[[], Figures]] = {
            "show": rehearsal.show,
            "quantize": rehearsal.quantize,
            "generate-ar": lambda: rehearsal.generate("ar"),
            "generate-canvas": lambda: rehearsal.generate("canvas"),
            "ar": lambda: rehearsal.speed("ar"),
            "canvas": lambda: rehearsal.speed("canvas"),
            "serve": rehearsal.serve,
            "finetune": rehearsal.finetune,
        }
        wanted = options.only.split(",")
        if unknown := set(wanted) - steps.keys():
            parser.error(f"--only: {', '.join(sorted(unknown))}; known: {', '.join(steps)}")
        if "quantization_config" in json.loads((folder / "config.json").read_text("utf-8")):
            steps.pop("quantize")
        for name, step in steps.items():
            if name in wanted:
                console.print(name)
                found[name] = step()
                console.print(found[name])
        shutil.rmtree(Path(work) / "int4", ignore_errors=True)
    table = Table("step", "figures")
    for name, figures in found.items():
        table.add_row(name, ", ".join(f"{key} {value}" for key, value in figures.items()))
    console.print(table)
    print(json.dumps({"benchmark": "fullsize", "layers": options.layers, "threads": options.threads, "steps": found}))


if __name__ == "__main__":
    main()
