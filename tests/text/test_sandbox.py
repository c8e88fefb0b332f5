"""Templates that would compute for hours, or fill the memory, are stopped in seconds and by name."""

import jinja2.defaults
import pytest

from gesso.errors import TextError
from gesso.text import sandbox_budget, sandbox_sizes
from gesso.text.chat_template import ChatTemplate


def grown(step: str) -> str:
    return "{% set n = namespace(s='aa', l=[1]) %}{% for i in range(90) %}" + step + "{% endfor %}{{ n.s }}{{ n.l }}"


BITS = "makes a number of more than 65,536 bits"
TURNS, SIZE = r"takes more than 10,000 turns", r"makes a text or list of more than 33,554,432"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", TURNS),
        ("{% for a in range(99999) %}{% for b in range(99999) %}text{% endfor %}{% endfor %}", TURNS),
        ("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}", TURNS),
        ("{% for a in [[1]] recursive %}{% for b in range(99) %}{{ loop(range(99)) }}{% endfor %}{% endfor %}", ""),
        ("{{ 'a' * 99999999999 }}", SIZE),
        ("{{ 2 ** 9999999999 }}", BITS),
        ("{{ 'a' | center(9999999999) }}", SIZE),
        ("{{ 'a'.ljust(9999999999) }}", SIZE),
        ("{{ '%9999999999d' % 1 }}", SIZE),
        ("{{ '%9999999999d' | format(1) }}", SIZE),
        ("{{ (['a' * 1000000] * 1000) | join('b') }}", SIZE),
        ("{{ 'b'.join(['a' * 1000000] * 1000) }}", SIZE),
        ("{% set s = 'a' * 30000000 %}{{ s }}{{ s }}", SIZE),
        ("{{ '{:>1000000000}'.format(1) }}", SIZE),
        ("{{ '{:>{}}'.format(1, 1000000000) }}", SIZE),
        ("{{ '{:>{}}'.format(1, '1000000000') }}", SIZE),
        ("{{ '{a:>1000000000}'.format_map({'a': 1}) }}", SIZE),
        ("{% set f = '{:>1000000000}' | attr('format') %}{{ f(1) }}", SIZE),
        ("{{ ('{0:>999999}' * 3000).format(1) }}", SIZE),
        ("{{ ('{0}' * 3000).format('x' * 30000) }}", SIZE),
        ("{{ ('{0[0]}' * 3000).format(['x' * 30000]) }}", SIZE),
        ("{{ '%*d' % (1000000000, 1) }}", SIZE),
        ("{{ '%.1000000000f' % 1 }}", SIZE),
        ("{{ ('%(a)999999d' * 3000) % {'a': 1} }}", SIZE),
        ("{{ ('%(a)s' * 3000) | format(a='x' * 30000) }}", SIZE),
        ("{{ ('a b ' * 10000) | wordwrap(1, wrapstring='x' * 10000) }}", SIZE),
        ("{{ ('a\n' * 10000) | indent('x' * 10000) }}", SIZE),
        ("{{ ('a.com ' * 10000) | urlize(target='x' * 10000) }}", SIZE),
        ("{{ 'a'.rjust(1000000000) }}", SIZE),
        ("{{ '\t'.expandtabs(1000000000) }}", SIZE),
        ("{{ 1.5 | round(1000000000, 'ceil') }}", "rounds to more than 1,000 digits"),
        ("{{ [1] | tojson(indent=1000000000) }}", "writes JSON with more than 64 characters"),
        ("{{ lipsum(n=1000000) }}", "lipsum"),
        ("{{ 'a'.encode().ljust(1000000000) | length }}", "makes bytes with encode"),
        ("{{ (1).to_bytes(1000000000, 'big') | length }}", "makes bytes with to_bytes"),
        ("{{ strftime_now('%0100000d' * 1000) }}", "a pattern of more than 256"),
        ("{% set x = range(9999) | list %}{{ ([x] * 9999) | sum(start=[]) | length }}", SIZE),
        ("{{ ['x' * 1000000] * 1000 }}", SIZE),
        ("{{ (['x' * 1000000] * 1000) | upper }}", SIZE),
        ("{% set x %}{% for i in range(9999) %}{{ 'x' * 1000000 }}{% endfor %}{% endset %}", "writes more than 134,"),
        (
            "{% macro f() %}{% for i in range(9999) %}{{ 'x' * 1000000 }}{% endfor %}{% endmacro %}{{ f() }}",
            "writes more than 134,",
        ),
        (
            "{% set x %}{% for i in range(9999) %}" + "x" * 100_000 + "{% endfor %}{% endset %}",
            "writes more than 134,",
        ),
        (grown("{% set n.s = n.s ~ n.s %}"), SIZE),
        (grown("{% set n.s = n.s + n.s %}"), SIZE),
        (grown("{% set n.s = n.s.replace('a', n.s) %}"), SIZE),
        (grown("{% set n.s = n.s | replace('a', n.s) %}"), SIZE),
        (grown("{% set s %}{{ n.s }}{{ n.s }}{% endset %}{% set n.s = s %}"), SIZE),
        (grown("{% set n.l = [n.l, n.l] %}"), "writes out a value of more than 10,000 items"),
        (grown("{% set n.l = [n.l, n.l] %}") + "{{ n.l | tojson }}", "writes out a value of more than 10,000 items"),
    ],
)
def test_what_computes_too_much_is_stopped(source: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_budget, "MAX_STEPS", 10_000)  # a hundredth: so that the test is quick
    monkeypatch.setattr(sandbox_sizes, "MAX_ITEMS", 10_000)
    with pytest.raises(TextError, match=f"chat template .*{said}"):
        ChatTemplate(source, {}).render([])


def test_nothing_is_computed_before_it_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setitem(jinja2.defaults.DEFAULT_FILTERS, "upper", calls.append)
    made = ChatTemplate("{% set a = 'a' | upper %}{{ 'a' | upper }}", {})
    assert not calls
    made.render([])
    assert calls == ["a", "a"]


def test_time_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_budget, "MAX_SECONDS", 0.2)
    slow = "('x' * 3000000) | upper | length"
    for source in "{% for a in range(99999) %}{{ " + slow + " }}{% endfor %}", ("{{ " + slow + " }}") * 1000:
        with pytest.raises(TextError, match=r"stopped: it computes for more than 0\.2 seconds"):
            ChatTemplate(source, {}).render([])


LOOKS = "looks at more than 100,000 items in filters and comparisons"
ITEMS = "{% set a = range(9999) | list %}"
TEXTS = "{% set t = ['x' * 999 ~ 'y'] * 9999 %}{% set x = 'x' * 1000 %}"
PAIRS = (
    "{% set n = namespace(a=(1, 2), b=(1, 2)) %}{% for i in range(40) %}"
    "{% set n.a = (n.a, n.a) %}{% set n.b = (n.b, n.b) %}{% endfor %}"
)
"""Two equal values, each of which holds one twice that holds one twice and so on."""
NESTED = "compares a value of more than 10,000 items"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (ITEMS + "{{ a | select('in', a) | list | length }}", LOOKS),
        (ITEMS + "{{ a | select('in', seq=a) | list | length }}", LOOKS),
        (ITEMS + "{{ a | reject('in', a) | list | length }}", LOOKS),
        (ITEMS + "{{ a | map('string') | select('in', a) | first }}", LOOKS),
        (ITEMS + "{{ a | batch(9) | map('sum') | map('string') | join | length }}" * 9, LOOKS),
        (ITEMS + "{{ ([{'a': 1}] * 9999) | selectattr('a', 'in', a) | list | length }}", LOOKS),
        (ITEMS + "{{ ([{'a': 1}] * 9999) | rejectattr('a', 'in', a) | list | length }}", LOOKS),
        (ITEMS + "{{ ([[a]] * 9999) | map('first') | map('sum') | list | length }}", LOOKS),
        (ITEMS + "{{ ([a] * 9999) | map('list') | list | length }}", LOOKS),
        (ITEMS + "{{ ([a] * 9999) | map('join') | list | length }}", LOOKS),
        (ITEMS + "{{ ([a] * 9999) | map('max') | list | length }}", LOOKS),
        (ITEMS + "{{ ([a] * 9999) | map('slice', 3) | list | length }}", LOOKS),
        (ITEMS + "{% for i in a %}{{ -1 in a }}{% endfor %}", LOOKS),
        (ITEMS + "{% for i in a %}{{ -1 not in a }}{% endfor %}", LOOKS),
        (ITEMS + "{% for i in a %}{{ a.index(9998) }}{% endfor %}", LOOKS),
        (TEXTS + "{% for i in range(9999) %}{{ x in t }}{% endfor %}", LOOKS),
        (TEXTS + "{% for i in range(9999) %}{{ x in {1: t}.values() }}{% endfor %}", LOOKS),
        (TEXTS + "{% for i in range(9999) %}{{ 'z' in 'x' * 99999 }}{% endfor %}", LOOKS),
        (TEXTS + "{{ t | sort | length }}", LOOKS),
        (TEXTS + "{{ t | min | length }}", LOOKS),
        (TEXTS + "{{ t | unique | list | length }}", LOOKS),
        (TEXTS + "{{ (t | groupby('0')) | length }}", LOOKS),
        (TEXTS + "{% for i in range(9999) %}{{ {1: t} | dictsort | length }}{% endfor %}", ""),
        (PAIRS + "{{ n.a == n.b }}", NESTED),
        (PAIRS + "{{ n.a is eq n.b }}", NESTED),
        (PAIRS + "{{ [n.a] | select('eq', n.b) | list | length }}", NESTED),
        (PAIRS + "{{ n.a in [n.b] }}", NESTED),
        (PAIRS + "{{ [n.a, n.b] | sort | length }}", NESTED),
        (PAIRS + "{{ [n.a].count(n.b) }}", NESTED),
        (PAIRS + "{{ {n.a: 1} | length }}", NESTED),
        (PAIRS + "{{ {}.get(n.a) }}", NESTED),
        (PAIRS + "{{ {}[n.a] }}", NESTED),
        ("{{ (2 ** 30000000) // (3 ** 10000000) }}", BITS),
        ("{{ ('f' * 20000) | int(base=16) }}", BITS),
    ],
)
def test_filters_and_comparisons_are_counted(source: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_budget, "MAX_LOOKED", 100_000)  # a hundredth: so that the test is quick
    monkeypatch.setattr(sandbox_sizes, "MAX_ITEMS", 10_000)
    with pytest.raises(TextError, match=f"chat template is stopped: it .*{said}"):
        ChatTemplate(source, {}).render([])


def test_long_conversations_are_no_long_computations() -> None:
    source = (
        "{% for m in messages %}{% if m.role in ['user', 'model'] and '</think>' in m.content and m != messages[0] %}"
        "{{ (messages | selectattr('role', 'equalto', 'user') | list)[0].role[:1] }}{% endif %}{% endfor %}"
    )
    messages = [{"role": "user", "content": "a word " * 300 + f"{number}</think>"} for number in range(300)]
    assert ChatTemplate(source, {}).render(messages) == "u" * 299


def test_what_templates_do_they_still_do() -> None:
    source = (
        "{% for m in messages %}{{ '<' ~ m.role ~ '>' }}{{ m.content | trim }} {{ loop.index }}/{{ loop.length }}"
        "{% if loop.last %}!{% endif %}{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %}"
        "{% macro q(x) %}[{{ x }}]{% endmacro %}{{ q('z') }}{{ {'a': [1]} | tojson }}"
        "{{ ['a', 1] | join(', ') }}{{ ('a', 'b') | join }}{{ 'aba'.replace('a', 'c') }}{{ '%s-%02d' % ('x', 3) }}"
        "{% set x %}hi{% endset %}{{ x }}{% set y | upper %}hi{% endset %}{{ y }}{{ 2 ** 10 }}{{ [1] + [2] }}"
        "{{ 'a\nb' | indent(2) }}{{ '{:>3}'.format(7) }}"
        "{{ '{0}{0[0]:>{1}}'.format('a', 3) }}{{ '{a}'.format_map({'a': 1}) }}{{ '%(a)s%%' % {'a': 5} }}"
        "{{ '%s|%*d' | format('x', 3, 5) }}{{ 'a b' | wordwrap(1) }}{{ [[1], [2]] | sum(start=[]) }}"
        "{{ [{'n': 1}, {'n': 2}] | sum(attribute='n') }}{{ 1.25 | round(1, 'floor') }}{{ messages | length }}"
    )
    messages = [{"role": role, "content": " hi "} for role in ("user", "model", "user")]
    assert ChatTemplate(source, {}).render(messages) == (
        '<user>hi 1/3<model>hi 2/3[z]{"a": [1]}a, 1abcbcx-03hiHI1024[1, 2]a\n  b  7a  a15%x|  5a\nb[1, 2]31.23'
    )
