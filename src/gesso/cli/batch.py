"""Implements `gesso batch`."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gesso.cli import options as opt
from gesso.cli.output import note, print_json
from gesso.cli.serve import adapter_folders
from gesso.cli.serve_options import Adapters, KvMemory, Running
from gesso.load_options import LoadOptions
from gesso.options import Integer

if TYPE_CHECKING:
    from fastapi import FastAPI

    from gesso.batch.ask import Asker
    from gesso.batch.journal import Journal
    from gesso.batch.lines import Scan

_BATCH = {"rich_help_panel": "Batch"}
Input = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Requests, one JSON object a line: custom_id, method (POST), url and body."),
]
Out = Annotated[
    Path,
    typer.Option(
        metavar="FILE", help="Answers, one a line. One that is there is gone on with, if it is of this input.", **_BATCH
    ),
]
Workers = Annotated[
    int | None, typer.Option(metavar="N", help="Lines under way at once; --max-num-seqs without it.", **_BATCH)
]
RetryErrors = Annotated[
    bool,
    typer.Option("--retry-errors", help="Ask the lines again that the server answered with an error.", **_BATCH),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON line with the counts.", **_BATCH)]


@opt.takes(but=("adapter",))
def batch(
    load: LoadOptions,
    input: Input,  # noqa: A002
    out: Out,
    workers: Workers = None,
    retry_errors: RetryErrors = False,
    as_json: AsJson = False,
    server: opt.Server = None,
    api_key: opt.ApiKey = None,
    max_num_seqs: Running = 8,
    kv_memory: KvMemory = None,
    adapter: Adapters = None,
) -> int:
    """Answer a file of requests in OpenAI's batch format; what was stopped goes on with the same command."""
    from gesso.batch.journal import Journal
    from gesso.cli.failure import needs
    from gesso.errors import GessoError, OptionError, UserError

    at_once = max_num_seqs if workers is None else workers
    Integer(minimum=1).check("max_num_seqs", max_num_seqs)
    Integer(minimum=1).check("workers", at_once)
    if server is not None and (load != LoadOptions() or kv_memory is not None or adapter):
        raise OptionError(
            "--server has its own model: leave out --model, --adapter and what loads them", option="server"
        )
    scanned = _scanned(input, out)
    facts: dict[str, object] = {"input": scanned.sha256, "model": load.model if server is None else server}
    numbers = {"adapter": sorted(adapter or []), "merged adapter": load.adapter, "dtype": load.dtype}
    # What is at its default is not told: answers from before these were known are gone on with.
    facts |= {name: value for name, value in numbers.items() if value not in ([], None, "auto")}
    with Journal(out, facts) as journal:
        if retry_errors and (again := journal.drop_errors()):
            note(f"{out}: {again} of {scanned.lines} lines got an error and are asked again")
        there = len(journal.done)
        if there:
            note(f"{out}: {there} of {scanned.lines} lines are answered already")
        if scanned.problem is not None:
            note(f"{input}: {scanned.bad} of {scanned.lines} lines cannot be asked: {scanned.problem.message}")
        if there < scanned.lines:
            try:
                with needs("server", "batches need"), contextlib.ExitStack() as stack:
                    from gesso.batch.ask import in_process, over_http

                    if server is not None:
                        ask = over_http(server, api_key)
                    else:
                        app = _application(load, max_num_seqs, at_once, kv_memory, adapter or [])
                        ask = in_process(stack.enter_context(app))
                    _run(ask, input, scanned, journal, at_once)
            except UserError:
                # The same command would be refused again.
                raise
            except BaseException:
                note(f"{out}: {len(journal.done)} of {scanned.lines} lines are answered; the same command goes on")
                raise
        counts = {"lines": scanned.lines, "answered": len(journal.done), "failed": journal.failed, "resumed": there}
    if counts["answered"] < scanned.lines:
        raise GessoError(f"{input} was changed meanwhile: {counts['answered']} of {scanned.lines} lines are answered")
    if as_json:
        print_json(counts)
    else:
        print(f"{out}: {counts['answered']} lines, {counts['failed']} of them errors")
    return 1 if counts["failed"] == scanned.lines else 0


def _scanned(file: Path, out: Path) -> "Scan":
    """Reads an input once, and refuses one that is the output, that cannot be read again, whose answers could not be
    told apart, or that asks for nothing."""
    from gesso.batch.lines import refuse_duplicates, scan
    from gesso.errors import OptionError

    if out.resolve() == file.resolve():
        raise OptionError("--out must not be the input", option="out")
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise OptionError(f"{file} is read twice: it must be a file", option="input")
    scanned = scan(file)
    refuse_duplicates(scanned, str(file))
    if not scanned.lines:
        raise OptionError(f"{file} holds no request", option="input")
    return scanned


def _run(ask: "Asker", file: Path, scanned: "Scan", journal: "Journal", workers: int) -> None:
    """Answers the lines that have no answer yet."""
    import asyncio

    from gesso.batch.lines import requests_of
    from gesso.batch.run import run_batch
    from gesso.cli.progress import working

    left = requests_of(file, done=lambda number: scanned.identity(number) in journal.done)
    with working(f"{len(journal.done)} of {scanned.lines} lines") as show:

        def write(lines: Sequence[str]) -> None:
            journal.append(lines)
            show(f"{len(journal.done)} of {scanned.lines} lines")

        async def run() -> None:
            async with ask:
                await run_batch(left, scanned.identity, ask, write, workers)

        asyncio.run(run())


@contextlib.contextmanager
def _application(
    load: LoadOptions, max_num_seqs: int, workers: int, kv_memory: str | None, adapters: list[str]
) -> Iterator["FastAPI"]:
    """The server's application over a model of this process; it listens nowhere."""
    from gesso.cli.model_notes import note_other_base
    from gesso.engine.async_engine import AsyncEngine, Limits
    from gesso.options.sizes import size_in_bytes
    from gesso.server.app import create_app
    from gesso.server.settings import MEDIA_BODY_BYTES, Settings

    bound = None if kv_memory is None else size_in_bytes(kv_memory, "--kv-memory")
    limits = Limits(max_num_seqs=max_num_seqs, max_waiting=max(64, 8 * workers), kv_memory=bound)
    engine, folders = opt.load_engine(load), adapter_folders(adapters)
    for folder in folders.values():
        note_other_base(folder, load.model)
    service = AsyncEngine(engine, limits, folders)
    service.start()
    try:
        yield create_app(service, Settings(served_model_name=load.model, max_body_bytes=MEDIA_BODY_BYTES))
    finally:
        service.close()
