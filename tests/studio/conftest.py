"""A real browser on a real server: Chromium, where one is installed, driven by Playwright.

Playwright keeps an event loop in its thread, where no other test could run one. So it has a thread of its own, and the
tests of this folder run there. Whatever the page says on its console or asks of another host fails the test.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from server.conftest import running
from server.fake import FakeService

from gesso.api import load
from gesso.engine.async_engine import AsyncEngine, Limits

CHROMIUM = os.environ.get("GESSO_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
NEEDED = bool(os.environ.get("GESSO_NEED_CHROMIUM"))
"""Set by `make studio-test`, without which no browser is started: it takes a minute, and Chromium."""
SECONDS = 60
"""That Playwright waits for something before it gives up: far more than anything takes."""


@pytest.fixture(scope="session")
def thread() -> Iterator[ThreadPoolExecutor]:
    """The browser's thread."""
    with ThreadPoolExecutor(1, "playwright") as executor:
        yield executor


@pytest.fixture(scope="session")
def browser(thread: ThreadPoolExecutor) -> Iterator[Any]:
    """Chromium without a window."""
    if not NEEDED:
        pytest.skip("make studio-test runs the tests in a browser")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        missing = "playwright is not installed"
    else:
        missing = "" if CHROMIUM else "no Chromium is installed"
    if missing:
        pytest.fail(missing)
    driver = sync_playwright()
    playwright = thread.submit(driver.__enter__).result()
    arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
    launched = thread.submit(playwright.chromium.launch, executable_path=CHROMIUM, args=arguments).result()
    yield launched
    thread.submit(launched.close).result()
    thread.submit(driver.__exit__, None, None, None).result()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that has a page in the browser's thread."""
    if "open_page" not in pyfuncitem.fixturenames:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    pyfuncitem.funcargs["thread"].submit(pyfuncitem.obj, **arguments).result()
    return True


OpenPage = Callable[..., Any]


def expect(locator: Any) -> Any:
    """What Playwright waits for: a page goes on by itself, and what is not there yet may come."""
    from playwright.sync_api import expect

    expect.set_options(timeout=SECONDS * 1000)
    return expect(locator)


def host_of(url: str) -> str | None:
    """Whom a request asks; None where it asks nobody, because what it wants is in the address or in a file."""
    scheme, _, rest = url.partition(":")
    return None if scheme in ("data", "file", "about") else rest.split("/")[2]


@pytest.fixture
def open_page(request: pytest.FixtureRequest, browser: Any, thread: ThreadPoolExecutor) -> Iterator[OpenPage]:
    """Opens a page in a profile of its own: `open_page(url, ...)`, with options of Playwright's `new_context`.

    `expected` are parts of messages on the console that belong to the test, such as that of a failed request. The
    test's servers start before it, and so end after its pages are closed: what these still ask gets an answer.
    """
    for name in request.fixturenames:
        if name.endswith("_url"):
            request.getfixturevalue(name)
    contexts: list[Any] = []
    messages: list[str] = []
    allowed: list[str] = []
    hosts: set[str | None] = set()

    def open_(url: str, *, expected: tuple[str, ...] = (), **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        allowed.extend(expected)
        context.set_default_timeout(SECONDS * 1000)
        page = context.new_page()
        page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: messages.append(f"error: {error}"))
        page.on("request", lambda request: hosts.add(host_of(request.url)))
        page.goto(url)
        return page

    yield open_
    for context in contexts:
        thread.submit(context.close).result()
    assert [text for text in messages if not any(part in text for part in allowed)] == []
    assert all(host.startswith("127.0.0.1:") for host in hosts - {None}), hosts


@pytest.fixture
def service() -> FakeService:
    """An engine that plays prepared events."""
    return FakeService()


@pytest.fixture
def fake_url(service: FakeService) -> Iterator[str]:
    """A real server before it."""
    with running(service) as url:
        yield url


@pytest.fixture(scope="session")
def mini_url() -> Iterator[str]:
    """The bundled model behind a real server."""
    torch.set_num_threads(1)
    with running(AsyncEngine(load("mini", "cpu", offline=True), Limits())) as url:
        yield url


@contextmanager
def saved_file(page: Any) -> Iterator[list[str]]:
    """What the page offers as a file meanwhile, as text."""
    found: list[str] = []
    with page.expect_download() as waiting:
        yield found
    found.append(waiting.value.path().read_text(encoding="utf-8"))


def ready(page: Any) -> Any:
    """Waits until the server has told what it has."""
    page.locator("body[data-ready]").wait_for()
    return page


def ask(page: Any, text: str) -> Any:
    """Says something and waits for the end of the answer, which is returned."""
    before = page.locator(".turn.assistant").count()
    page.get_by_label("Your message").last.fill(text)
    page.get_by_role("button", name="Send").click()
    page.locator(".turn.assistant").nth(before).wait_for()
    answer = page.locator(".turn.assistant").last
    page.locator('.turn.assistant[data-state="running"]').wait_for(state="detached")
    drawn(page)
    return answer


def drawn(page: Any) -> None:
    """Waits until what changed is drawn: the canvas is drawn with the next picture of the screen."""
    page.evaluate("() => new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame))")
