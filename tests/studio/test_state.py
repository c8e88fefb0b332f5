"""What the page tells of the server: queue, running requests, caches, tokens a second."""

from typing import Any

from server.conftest import running
from server.fake import FakeService

from studio.conftest import OpenPage, expect, ready
from studio.harm import EVIL, harmless
from studio.test_logic import call


def cards(page: Any) -> dict[str, str]:
    page.locator(".cards div").first.wait_for()
    names, values = (page.locator(f".cards {tag}").all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(names, values, strict=True))


def test_the_figures_are_those_of_the_metrics(open_page: OpenPage, service: FakeService, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    page.get_by_role("button", name="Server").click()
    found = cards(page)
    assert found["Engine"] == "ready"
    assert (found["Running requests"], found["In the queue"], found["Expected wait"]) == ("2", "3", "1.5 s")
    assert found["Tokens a second"] == "\u2013", "one look tells no rate"
    assert (found["Tokens a forward pass"], found["Prompt tokens from the cache"]) == ("4", "25 %")
    assert (found["Caches of running requests"], found["Bound on both"]) == ("1,000 bytes", "4 KiB")
    table = page.get_by_role("region", name="Requests by how they ended")
    ended = table.locator("tbody td, tbody th").all_inner_texts()
    assert ended == ["crash", "1", "stop", "7"]
    page.locator(".cards div", has_text="Tokens a second").locator("dd", has_text="0").wait_for()
    expect(page.locator("#settings")).to_be_hidden()
    page.get_by_role("button", name="Chat", exact=True).click()
    expect(page.locator("#settings")).to_be_visible()


def test_back_goes_to_the_view_before(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    for name in ("Server", "Structure", "Structure"):
        page.get_by_role("button", name=name, exact=True).click()
    for shown, move in (("view-state", page.go_back), ("view-chat", page.go_back), ("view-state", page.go_forward)):
        move()
        expect(page.locator(f"#{shown}")).to_be_visible()
        expect(page.locator(f"[data-view={shown}]")).to_have_attribute("aria-current", "page")
    expect(page.locator("#settings")).to_be_hidden()


def test_a_server_that_is_gone_is_told_and_asked_again(open_page: OpenPage) -> None:
    with running(FakeService()) as url:
        page = ready(open_page(url, expected=("net::ERR",)))
        page.get_by_role("button", name="Server").click()
        before = cards(page)
    page.get_by_text("The connection to the server was cut").wait_for()
    assert cards(page).keys() == before.keys()
    with running(FakeService()) as other:
        page.route("**/*", lambda route: route.continue_(url=route.request.url.replace(url, other)))
        page.get_by_text("The connection to the server was cut").wait_for(state="detached")
        page.unroute_all(behavior="wait")


def test_samples_rates_and_a_server_that_began_anew(open_page: OpenPage, fake_url: str) -> None:
    page = open_page(fake_url)
    text = '# HELP x\ngesso_a 3.0\ngesso_b{route="/a\\"}b",status="200"} 1e3\nnonsense\ngesso_c NaN\n'
    found = call(page, "state/metrics.js", "({ samples }, text) => samples(text).slice(0, 2)", text)
    assert found == [
        {"name": "gesso_a", "labels": {}, "value": 3},
        {"name": "gesso_b", "labels": {"route": '/a"}b', "status": "200"}, "value": 1000},
    ]
    code = """({ Look }, one, other) =>
        new Look(`gesso_a ${other}`, 12).rate("a", one === null ? null : new Look(`gesso_a ${one}`, 10))"""
    for one, other, rate in ((10, 30, 10), (10, 10, 0), (10, 3, None), (None, 3, None)):
        assert call(page, "state/metrics.js", code, one, other) == rate


def test_labels_are_text(open_page: OpenPage, fake_url: str) -> None:
    page = ready(open_page(fake_url))
    evil = EVIL.replace('"', '\\"')
    body = f'gesso_requests_total{{outcome="{evil}"}} 1\ngesso_http_requests_total{{route="{evil}",status="1"}} 1\n'
    page.route("**/metrics", lambda route: route.fulfill(body=body, content_type="text/plain"))
    page.get_by_role("button", name="Server").click()
    page.get_by_role("region", name="HTTP requests").get_by_text("onerror").wait_for()
    assert page.locator(".tables").inner_text().count(EVIL) == 2
    harmless(page)
