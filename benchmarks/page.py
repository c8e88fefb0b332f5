"""How fast the studio draws a canvas, and what memory it takes after many answers, in a Chromium without a window.

    python benchmarks/page.py [--width 1024] [--changed 0.25] [--seconds 10] [--answers 200] [--chromium FILE]

It needs Playwright and a Chromium. While the canvas is drawn the server denoises `mini` without a pause on the same
machine. The ceiling is the rate at which frames are handed to the page, 30 a second.
"""

import argparse
import json
import shutil
import threading
from typing import Any

import gesso
from gesso.api import load
from gesso.engine.async_engine import AsyncEngine, Limits
from gesso.server.app import create_app
from gesso.server.run import Server, address, listen
from gesso.server.settings import Settings

DRAW = """async ([width, seconds, rate, changed]) => {
    const { CanvasPanel } = await import("/studio/canvas/panel.js");
    const { Recording } = await import("/studio/run/recording.js");
    const panel = new CanvasPanel({ goOn() {}, tokenize: async () => ({ tokens: [], pieces: [] }) });
    document.getElementById("canvas").append(panel.element);
    const recording = new Recording({ model: "m", prompt: "p", special: [], body: {} });
    const words = ["the", " canvas", " of", " a", " model", "\\n", " settles", " now"];
    let tokens = Array(width).fill(0);
    const frame = (step) => {
        tokens = tokens.map((token) => (Math.random() < changed ? Math.floor(Math.random() * words.length) : token));
        return {
            canvas: 0, step, max_denoising_steps: 10000, temperature: 0.5, tokens, pieces: tokens.map((n) => words[n]),
            accepted: tokens.map((n) => n % 2), entropy: tokens.map((n) => n / 4), canvas_tokens: tokens,
        };
    };
    let drawn = 0;
    const draw = panel.view.draw.bind(panel.view);
    panel.view.draw = (...given) => {
        draw(...given);
        if (!given[3]) drawn++; // what is out of sight is drawn besides
    };
    const began = performance.now();
    let given = 0;
    while (performance.now() - began < seconds * 1000) {
        recording.addFrame(frame(++given), given / rate);
        panel.update(recording, true);
        const next = began + (given * 1000) / rate;
        await new Promise((resolve) => setTimeout(resolve, Math.max(0, next - performance.now())));
    }
    const took = (performance.now() - began) / 1000;
    panel.element.remove();
    return { frames: given / took, pictures: drawn / took, drawn };
}"""
RATE = 30
HEAP = "() => performance.memory.usedJSHeapSize / 1e6"
QUESTION = "What is 481 + 296?"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--changed", type=float, default=0.25)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--answers", type=int, default=200)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    given = parser.parse_args()
    service = AsyncEngine(load("mini", "cpu", offline=True), Limits())
    with listen("127.0.0.1", 0) as listener:
        service.start()
        settings = Settings(served_model_name="mini", drain_seconds=0.0)
        server = Server(create_app(service, settings), service, settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            found = measure(address(listener), service, given)
        finally:
            server.stop()
            thread.join()
    print(json.dumps(found))


def measure(url: str, service: AsyncEngine, given: argparse.Namespace) -> dict[str, Any]:
    """All figures, printed as they come."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--enable-precise-memory-info", "--js-flags=--expose-gc"]
        browser = playwright.chromium.launch(executable_path=given.chromium, args=flags)
        page = browser.new_page()
        page.goto(url)
        page.locator("body[data-ready]").wait_for()
        busy = threading.Event()
        keep_busy(service, busy)
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        began = busy_seconds(devtools)
        draws = page.evaluate(DRAW, [given.width, given.seconds, RATE, given.changed])
        took = (busy_seconds(devtools) - began) / draws.pop("drawn") * 1000
        busy.set()
        print(
            f"{given.width} tokens, {given.changed:.0%} of them another one a step, the model running: "
            f"{draws['pictures']:.1f} pictures/s of {draws['frames']:.1f} frames/s; "
            f"the page's thread computes {took:.1f} ms for each, so that alone it would do {1000 / took:.0f}/s"
        )
        page.evaluate("() => window.gc()")
        before = page.evaluate(HEAP)
        page.locator("#prompt").fill(QUESTION)
        page.locator("#send").click()
        for number in range(1, given.answers + 1):
            page.locator('.turn.assistant[data-state="done"]').wait_for()
            if number == given.answers:
                break
            # Answers to one question: a conversation of hundreds would not fit the model's context.
            page.get_by_role("button", name="Retry, other seed").click()
            page.get_by_role("list", name="Conversation").get_by_text(f"{number + 1} of {number + 1}").wait_for()
        page.evaluate("() => window.gc()")
        after = page.evaluate(HEAP)
        print(f"heap: {before:.1f} MB at first, {after:.1f} MB after {given.answers} answers")
        browser.close()
    return {
        "width": given.width,
        **draws,
        "milliseconds": took,
        "heap_before_mb": before,
        "heap_after_mb": after,
        "answers": given.answers,
    }


def busy_seconds(devtools: Any) -> float:
    """What the page's thread has computed: processor time, which other programs do not change."""
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return next(float(metric["value"]) for metric in metrics if metric["name"] == "TaskDuration")


def keep_busy(service: AsyncEngine, end: threading.Event) -> None:
    """The engine always has a request until `end` is set."""

    def again(event: Any) -> None:
        if isinstance(event, gesso.Finished) and not end.is_set():
            threading.Thread(target=submit).start()

    def submit() -> None:
        service.submit(gesso.Request(QUESTION, {"ignore_eos": True, "confidence_threshold": 0}), again)

    submit()


if __name__ == "__main__":
    main()
