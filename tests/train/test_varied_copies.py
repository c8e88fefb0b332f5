import random
from typing import Any

import pytest

from gesso.tasks.skills.lexicon import is_unseen
from gesso.train.varied_copies import copied_share, copied_words, format_words, vary_copies

LABEL = {"prompt": "Label: fig, Oslo, 42", "completion": "<Oslo> 42 x fig"}


def pair(prompt: str, completion: str) -> dict[str, Any]:
    return {"prompt": prompt, "completion": completion}


def varied(fields: dict[str, Any], *kept: str, seed: int = 0) -> dict[str, Any]:
    return vary_copies(fields, frozenset(kept), random.Random(seed))


def test_what_stands_on_both_sides_is_copied() -> None:
    assert copied_words(LABEL) == {"fig", "oslo", "42"}


@pytest.mark.parametrize(
    ("prompt", "completion", "copied"),
    [
        ("make fooBar snake", "foo_bar", {"foo", "bar"}),
        ("shout quiet", "QUIET", {"quiet"}),
        ("HTTPServer", "http_server", {"http", "server"}),
        ("a b 7", "a b 7", set()),
        ("caf\u00e9 \u0434\u043e\u043c", "caf\u00e9 \u0434\u043e\u043c", set()),
        ("one two", "three", set()),
    ],
)
def test_parts_of_names_are_copied_in_any_case(prompt: str, completion: str, copied: set[str]) -> None:
    assert copied_words(pair(prompt, completion)) == copied


@pytest.mark.parametrize("seed", range(20))
def test_a_copy_stays_a_copy(seed: int) -> None:
    found = varied(LABEL, seed=seed)
    item, city, count = found["prompt"].removeprefix("Label: ").split(", ")
    assert found["completion"] == f"<{city}> {count} x {item}"
    assert city.istitle()
    assert item.islower()
    assert len(count) == 2
    assert count[0] != "0"
    assert {item, city, count}.isdisjoint({"fig", "Oslo", "42"})
    assert not is_unseen(item)
    assert not is_unseen(city)


def test_numbers_of_so_few_digits_that_none_are_left_stay() -> None:
    numbers = " ".join(f"{number:02}" for number in range(100))
    fields = {"prompt": numbers, "completion": numbers}
    assert vary_copies(fields, frozenset(), random.Random(1)) == fields


def test_case_is_kept_place_by_place() -> None:
    found = varied(pair("fooBar FOO x", "foo_bar Foo"))
    first, second = found["completion"].split(" ")[0].split("_")
    assert found["prompt"] == f"{first}{second.capitalize()} {first.upper()} x"
    assert found["completion"].endswith(first.capitalize())


def test_words_of_the_format_stay() -> None:
    lines = [pair(f"name {word}", f"name={word}") for word in ("fig", "pear", "plum", "kiwi")]
    assert format_words(lines) == {"name", "fig", "pear", "plum", "kiwi"}
    lines = [pair(f"name w{'abcdefghijklmnopqrst'[i]}{'klmno'[i % 5]}", "name") for i in range(20)]
    assert format_words(lines) == {"name"}
    found = varied(pair("name fig", "name=fig"), "name")
    assert found["prompt"].startswith("name ")
    assert found["completion"] == found["prompt"].replace(" ", "=")
    assert "fig" not in found["prompt"]


def test_a_number_that_begins_with_0_still_does() -> None:
    numbers = {varied(pair("id 0071", "0071"), seed=seed)["completion"] for seed in range(9)}
    assert all(len(number) == 4 and number[0] == "0" for number in numbers)
    assert len(numbers) > 1


def test_a_chat_is_varied_as_a_whole() -> None:
    fields: dict[str, Any] = {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Weather at Turku?"}, {"type": "image", "path": "p"}],
            },
            {
                "role": "assistant",
                "tool_calls": [{"type": "function", "function": {"name": "get", "arguments": '{"place": "Turku"}'}}],
            },
            {"role": "tool", "content": {"place": "Turku", "degrees": 21}},
            {"role": "assistant", "content": "21 degrees in Turku"},
        ]
    }
    found = varied(fields)["messages"]
    city = found[0]["content"][0]["text"].removeprefix("Weather at ").removesuffix("?")
    assert city != "Turku"
    assert found[0]["content"][1] == {"type": "image", "path": "p"}
    assert found[1]["tool_calls"][0]["function"] == {"name": "get", "arguments": {"place": city}}
    assert found[2]["content"]["place"] == city
    assert found[3]["content"] == f"{found[2]['content']['degrees']} degrees in {city}"
    assert fields["messages"][2]["content"] == {"place": "Turku", "degrees": 21}


def test_words_of_tools_stay() -> None:
    fields: dict[str, Any] = {
        "messages": [{"role": "user", "content": "call fetch"}, {"role": "assistant", "content": "fetch"}],
        "tools": [{"type": "function", "function": {"name": "fetch"}}],
    }
    assert copied_words(fields) == set()
    assert varied(fields) == fields


def calling(text: str, *arguments: object, result: object = "done") -> dict[str, Any]:
    calls = [{"name": "order", "arguments": given} for given in arguments]
    messages = [
        {"role": "user", "content": text},
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "content": result},
    ]
    return {"messages": messages}


@pytest.mark.parametrize(
    ("fields", "copied"),
    [
        (calling("Order 12 pears", {"item": "pears", "count": 12}), {"pears", "12"}),
        (calling("Order 12 pears at 12.50", {"item": "pears", "count": 12, "price": 12.5}), {"pears"}),
        (calling("Order 50 pears at 12.50", '{"item": "pears", "count": 50, "price": 12.5}'), {"pears"}),
        (calling("Order 50 pears for 1,750.00", {"item": ["pears"], "count": 50}, {"costs": [1750.0]}), {"pears"}),
        (calling("Order 21 figs", {"item": "figs", "count": 21}, result={"degrees": 20.5}), {"figs"}),
        (calling("Set red of the lamp to red", {"red": "red", "of": "lamp"}), {"lamp"}),
        (calling("order an order of figs", {"item": "order of figs"}), {"of", "figs"}),
        (calling("say true: is it true", {"say": "true", "loud": True}), set()),
    ],
)
def test_what_calls_and_results_hold_and_what_stays_of_them_is_not_replaced(
    fields: dict[str, Any], copied: set[str]
) -> None:
    assert copied_words(fields) == copied


def test_a_source_is_changed_with_its_prompt() -> None:
    found = varied({"prompt": "replace fig by pear", "source": "a fig tree", "completion": "a pear tree"})
    old, new = found["prompt"].removeprefix("replace ").split(" by ")
    tree = found["source"].split()[-1]
    assert found["source"] == f"a fig {tree}"
    assert found["completion"] == f"a {new} {tree}"
    assert old == "fig"


def test_plain_text_has_no_sides() -> None:
    assert varied({"text": "fig fig"}) == {"text": "fig fig"}


def test_the_share_of_copied_words_leaves_the_format_out() -> None:
    words = ("abx", "cdx", "efx", "ghx", "ijx", "klx", "mnx", "opx", "qrx")
    lines = [*(pair(f"name {word}", f"name={word}") for word in words), pair("one", "two three")]
    assert copied_share(lines) == pytest.approx(9 / 11)
    assert copied_share([{"text": "fig"}]) == 0
