"""`gesso chat`: a conversation in the terminal."""

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from gesso.cli import options as opt
from gesso.cli.progress import is_screen, working

if TYPE_CHECKING:
    from gesso.cli.remote import RemoteModel

HELP = "/clear forgets the conversation, /exit or Ctrl-D ends it, Ctrl-C stops an answer"


def chat(
    model: opt.Model = opt.DEFAULT_MODEL,
    system: opt.System = None,
    seed: opt.Seed = None,
    max_new_tokens: opt.MaxNewTokens = None,
    max_denoising_steps: opt.MaxSteps = None,
    canvas_length: opt.CanvasLength = None,
    temperature: opt.Temperature = None,
    top_p: opt.TopP = None,
    top_k: opt.TopK = None,
    entropy_bound: opt.EntropyBound = None,
    t_min: opt.TMin = None,
    t_max: opt.TMax = None,
    stability_threshold: opt.Stability = None,
    confidence_threshold: opt.Confidence = None,
    stop: opt.Stop = None,
    thinking: opt.Thinking = False,
    thinking_budget: opt.ThinkingBudget = None,
    mode: opt.Mode = None,
    canvas_width: opt.CanvasWidth = None,
    stop_at_end: opt.StopAtEnd = False,
    adapter: opt.Adapter = None,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    offline: opt.Offline = False,
    server: opt.Server = None,
    api_key: opt.ApiKey = None,
) -> int:
    """Talk with a model, here or behind a server; a line is a message."""
    request = opt.generation_options(
        seed=seed,
        max_new_tokens=max_new_tokens,
        max_denoising_steps=max_denoising_steps,
        entropy_bound=entropy_bound,
        t_min=t_min,
        t_max=t_max,
        stability_threshold=stability_threshold,
        confidence_threshold=confidence_threshold,
        stop=stop,
        ignore_eos=False,
        start_canvas=None,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        canvas_length=canvas_length,
        thinking_budget=thinking_budget,
        mode=mode,
        canvas_width=canvas_width,
        stop_at_end=stop_at_end,
    )
    from gesso.cli.interrupt import first_interrupt
    from gesso.cli.session import note, present
    from gesso.errors import OptionError, UserError

    partner: Any
    if server is not None:
        if (adapter, device, dtype, offline) != (None, "auto", "auto", False):
            raise OptionError(
                "--server has a model of its own: --adapter, --device, --dtype and --offline mean nothing"
            )
        partner = _remote(server, model, api_key)
        model, special = partner.name, partner.special
    else:
        from gesso.api import load

        with working(f"loading {model}"):
            partner = load(model, device, dtype, offline=offline, adapter=adapter)
        special = partner.tokenizer.special_ids
    live = sys.stdin is not None and sys.stdin.isatty() and is_screen(sys.stdout)
    if live:
        import readline  # noqa: F401  (gives input() its line editing)

        note(_wrapped(f"{model} \N{MIDDLE DOT} {HELP}"))
    start: list[dict[str, Any]] = [{"role": "system", "content": system}] if system is not None else []
    messages = list(start)
    while (line := _ask(live)) is not None:
        if line in ("/exit", "/quit"):
            break
        if line == "/clear":
            messages = list(start)
            continue
        if line.startswith("/"):
            note(_wrapped(f"no command {line.split()[0]}: {HELP}"))
            continue
        if not line.strip():
            continue
        messages.append({"role": "user", "content": line})
        try:
            stream = partner.stream(messages, drafts=live, thinking=thinking, **request)
            with first_interrupt(stream.cancel):
                result = present(iter(stream), live=live, as_json=False, special=special)
        except UserError as error:
            note(f"gesso: {error}")
            messages.pop()
            continue
        if result.finish_reason == "cancelled":
            # Half an answer would be taken for a whole one in the turns that follow.
            messages.pop()
            if not live:
                return 130
            note("this turn is forgotten")
            continue
        messages.append({"role": "assistant", "content": result.text})
    return 0


def _wrapped(text: str) -> str:
    """`text` in lines as wide as the terminal."""
    return textwrap.fill(text, shutil.get_terminal_size().columns, break_long_words=False)


def _remote(server: str, model: str, api_key: str | None) -> "RemoteModel":
    from gesso.errors import OptionError

    try:
        from gesso.cli.remote import RemoteModel
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("gesso"):
            raise
        raise OptionError(f'{error.name} is missing; --server needs pip install "gesso[server]"') from None
    return RemoteModel(server, None if model == opt.DEFAULT_MODEL else model, api_key)


def _ask(live: bool) -> str | None:
    """The next line; None at the end of the input."""
    from gesso.errors import TextError

    while True:
        try:
            return input("> " if live else "")
        except EOFError:
            if live:
                print()
            return None
        except UnicodeDecodeError as error:
            raise TextError(f"standard input is no UTF-8 text: {error}") from None
        except KeyboardInterrupt:
            if not live:
                raise
            print()
