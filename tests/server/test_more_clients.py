"""Official clients that want an environment of their own, against the bundled model: `make clients` makes it.

Their packages are heavy, and one asks for an older version of another client. So each runs in a process of its own, by
the interpreter `GESSO_CLIENTS` and, for node, with the packages of the folder `GESSO_NODE_CLIENTS`; by default this
interpreter, and the folder `build/clients`. What is not there is skipped by its name.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from gesso.models import hub
from gesso.text.tokenizer import Tokenizer

PYTHON = os.environ.get("GESSO_CLIENTS", sys.executable)
PACKAGES = Path(os.environ.get("GESSO_NODE_CLIENTS", "build/clients")).absolute()
NEEDED = os.environ.get("GESSO_NEED_CLIENTS") == "1"
"""Whether a client that is not there is a failure."""

LANGCHAIN = """
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

class Sum(BaseModel):
    total: int

model = ChatOpenAI(model="mini", base_url=url + "/v1", api_key="none", seed=7, max_retries=0)
whole = model.invoke(question)
streamed = "".join(chunk.content for chunk in model.stream(question))
held = model.with_structured_output(Sum, method="json_schema").invoke(question)
newer = ChatOpenAI(model="mini", base_url=url + "/v1", api_key="none", use_responses_api=True).invoke(question)
told = {"whole": whole.content, "streamed": streamed, "held": type(held.total).__name__, "newer": newer.text.strip(),
        "tokens": whole.usage_metadata["input_tokens"]}
"""
LITELLM = """
import litellm

litellm.telemetry = False
given = {"model": "openai/mini", "api_base": url + "/v1", "api_key": "none", "seed": 7, "num_retries": 0}
messages = [{"role": "user", "content": question}]
whole = litellm.completion(messages=messages, **given)
parts = [chunk.choices[0].delta.content or "" for chunk in litellm.completion(messages=messages, stream=True, **given)]
theirs = litellm.completion(model="anthropic/mini", api_base=url, api_key="none", messages=messages, max_tokens=32)
said, newer = (answer.choices[0].message.content for answer in (whole, theirs))
told = {"whole": said, "streamed": "".join(parts), "newer": newer, "tokens": whole.usage.prompt_tokens}
"""
PYDANTIC_AI = """
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

class Sum(BaseModel):
    total: int

provider = OpenAIProvider(base_url=url + "/v1", api_key="none")
settings = {"seed": 7}
model = OpenAIChatModel("mini", provider=provider)
whole = Agent(model).run_sync(question, model_settings=settings)
held = Agent(model, output_type=NativeOutput(Sum)).run_sync(question, model_settings=settings)

async def stream():
    async with Agent(model).run_stream(question, model_settings=settings) as running:
        return [text async for text in running.stream_text(delta=True)]

import asyncio
told = {"whole": whole.output, "streamed": "".join(asyncio.run(stream())), "held": type(held.output.total).__name__}
"""
OPENAI_NODE = """
import OpenAI from "openai";
const client = new OpenAI({ baseURL: url + "/v1", apiKey: "none", maxRetries: 0 });
const asked = { model: "mini", messages: [{ role: "user", content: question }], seed: 7 };
const whole = await client.chat.completions.create(asked);
let streamed = "";
for await (const chunk of await client.chat.completions.create({ ...asked, stream: true }))
  streamed += chunk.choices[0]?.delta?.content ?? "";
const newer = await client.responses.create({ model: "mini", input: question });
const told = { whole: whole.choices[0].message.content, streamed, newer: newer.output_text.trim(),
  tokens: whole.usage.prompt_tokens };
"""
AI_NODE = """
import { generateObject, generateText, jsonSchema, streamText } from "ai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
const provider = createOpenAICompatible({ name: "gesso", baseURL: url + "/v1", supportsStructuredOutputs: true });
const asked = { model: provider("mini"), prompt: question, seed: 7, maxRetries: 0 };
const whole = await generateText(asked);
let streamed = "";
for await (const text of streamText(asked).textStream) streamed += text;
const schema = jsonSchema({ type: "object", properties: { total: { type: "integer" } }, required: ["total"],
  additionalProperties: false });
const held = await generateObject({ ...asked, schema });
const told = { whole: whole.text, streamed, held: Number.isInteger(held.object.total) ? "int" : "other" };
"""
LM_EVAL = """
import json, sys
from lm_eval import simple_evaluate
from lm_eval.api.task import ConfigurableTask
from pathlib import Path

folder = Path(sys.argv[2])
rows = [{"prompt": "What is %d + %d?" % (a, b), "options": [" no", " yes"], "right": 1} for a, b in ((1, 2), (3, 4))]
(folder / "rows.jsonl").write_text("\\n".join(map(json.dumps, rows)))
task = ConfigurableTask(config={
    "task": "sums", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(folder / "rows.jsonl")}},
    "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "{{prompt}}", "doc_to_choice": "options",
    "doc_to_target": "right", "metric_list": [{"metric": "acc"}]})
found = simple_evaluate("local-completions", tasks=[task], bootstrap_iters=0, log_samples=True,
    model_args={"model": "mini", "base_url": url + "/v1/completions", "tokenizer": sys.argv[1], "max_retries": 1,
                "tokenized_requests": True})
samples = found["samples"]["sums"]
told = {"likelihoods": [float(answer[0]) for sample in samples for answer in sample["filtered_resps"]],
        "asked": [list(asked)[:2] for sample in samples for asked in sample["arguments"]]}
"""


def environment() -> dict[str, str]:
    """Without this project's own path, whose packages may be others; and without the network."""
    others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**others, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def run_python(package: str, script: str, url: str, *arguments: str) -> dict[str, Any]:
    there = [PYTHON, "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)"]
    if subprocess.run(there, env=environment(), check=False, capture_output=True).returncode:
        missing(package)
    code = f"url, question = {url!r}, 'What is 481 + 296?'\n{script}\nimport json\nprint('TOLD', json.dumps(told))"
    return told(["-c", code, *arguments], PYTHON)


def run_node(package: str, script: str, url: str, tmp_path: Path) -> dict[str, Any]:
    node = shutil.which("node")
    if node is None or not (PACKAGES / "node_modules" / package).is_dir():
        missing(f"node's {package}")
    (tmp_path / "node_modules").symlink_to(PACKAGES / "node_modules")
    imports, body = [], []
    for line in script.strip().splitlines():
        (imports if line.startswith("import") else body).append(line)
    constants = [f"const url = {json.dumps(url)};", 'const question = "What is 481 + 296?";']
    last = ['console.log("TOLD", JSON.stringify(told));']
    (tmp_path / "client.mjs").write_text("\n".join([*imports, *constants, *body, *last]))
    return told([str(tmp_path / "client.mjs")], str(node))


def told(arguments: list[str], program: str) -> dict[str, Any]:
    done = subprocess.run(
        [program, *arguments], env=environment(), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    return dict(json.loads(line.removeprefix("TOLD ")))


def missing(what: str) -> None:
    if NEEDED:
        pytest.fail(f"{what} is not here")
    pytest.skip(f"{what} is not here")


def check(found: dict[str, Any]) -> None:
    assert (found["whole"], found["streamed"]) == ("777", "777")
    assert found.get("held", "int") == "int"
    assert found.get("newer", "777") == "777"
    assert found.get("tokens", 21) > 10


@pytest.mark.parametrize(
    ("package", "script"), [("langchain_openai", LANGCHAIN), ("litellm", LITELLM), ("pydantic_ai", PYDANTIC_AI)]
)
def test_python_clients(mini_url: str, package: str, script: str) -> None:
    check(run_python(package, script, mini_url))


@pytest.mark.parametrize(("package", "script"), [("openai", OPENAI_NODE), ("ai", AI_NODE)])
def test_node_clients(mini_url: str, tmp_path: Path, package: str, script: str) -> None:
    check(run_node(package, script, mini_url, tmp_path))


def test_lm_evals_likelihoods_are_those_of_the_causal_pass(mini_url: str, tmp_path: Path) -> None:
    folder = hub.resolve("mini", offline=True)
    found = run_python("lm_eval", LM_EVAL, mini_url, str(folder), str(tmp_path))
    tokenizer = Tokenizer.from_folder(folder)
    for (text, continuation), likelihood in zip(found["asked"], found["likelihoods"], strict=True):
        prompt, whole = (tokenizer.encode(part) for part in (text, text + continuation))
        body = {"model": "mini", "prompt": whole, "max_tokens": 1, "echo": True, "logprobs": 1}
        response = httpx.post(f"{mini_url}/v1/completions", json=body, timeout=60)
        assert response.status_code == 200, response.text
        (choice,) = response.json()["choices"]
        told = sum(choice["logprobs"]["token_logprobs"][len(prompt) : len(whole)])
        assert likelihood == pytest.approx(told, abs=1e-3)
        assert likelihood < 0
