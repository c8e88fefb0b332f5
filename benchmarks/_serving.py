"""The servers that `serve.py` measures, one in a process: python _serving.py gesso|transformers MODEL

Both print their address and answer `POST /v1/chat/completions`. The peer is what one writes with `transformers` in an
afternoon: a FastAPI endpoint that renders the template, calls `generate` under a lock, and decodes.
"""

import os
import socket
import sys
import threading
from typing import Any

import torch


def serve_gesso(model: str) -> None:
    from gesso.api import load
    from gesso.engine.async_engine import AsyncEngine, Limits
    from gesso.server.run import listen, serve
    from gesso.server.settings import Settings

    service = AsyncEngine(load(model, "cpu", offline=True), Limits())
    with listen("127.0.0.1", 0) as listener:
        serve(service, Settings(model, drain_seconds=0), listener, started=lambda url: print(url, flush=True))


def serve_transformers(model: str) -> None:
    import uvicorn
    from fastapi import FastAPI
    from transformers import AutoTokenizer, DiffusionGemmaForBlockDiffusion

    from gesso.models.hub import resolve

    folder = resolve(model, offline=True)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    network: Any = DiffusionGemmaForBlockDiffusion.from_pretrained(folder, dtype=torch.float32).eval()
    app, lock = FastAPI(), threading.Lock()

    @app.post("/v1/chat/completions")
    def chat(body: dict[str, Any]) -> dict[str, Any]:
        text = tokenizer.apply_chat_template(body["messages"], tokenize=False, add_generation_prompt=True)
        ids = torch.tensor([tokenizer.encode(text, add_special_tokens=False)])
        with lock, torch.inference_mode():
            torch.manual_seed(body["seed"])
            out = network.generate(ids, max_new_tokens=body["max_tokens"], eos_token_id=None)
        tokens = (out if isinstance(out, torch.Tensor) else out.sequences)[0, ids.shape[1] :]
        answer = tokenizer.decode(tokens, skip_special_tokens=True)
        return {
            "choices": [{"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "length"}],
            "usage": {"completion_tokens": min(len(tokens), body["max_tokens"])},
        }

    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


if __name__ == "__main__":
    torch.set_num_threads(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    {"gesso": serve_gesso, "transformers": serve_transformers}[sys.argv[1]](sys.argv[2])
