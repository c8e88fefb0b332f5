"""Automata that are put into others as they are, against the same ones spelled out."""

import pytest

from gesso.constraints.byte_table import ByteAutomaton, difference
from gesso.constraints.bytes_automaton import compile_bytes
from gesso.constraints.expression import Expression, Text, choices, sequence, union
from gesso.constraints.json_text import JsonForm, any_value, mapping
from gesso.constraints.survey import Survey

FORM = JsonForm()
VALUE = any_value(FORM, 2)


def same(one: ByteAutomaton, other: ByteAutomaton) -> bool:
    return difference(one, other).empty and difference(other, one).empty


@pytest.mark.parametrize(
    "expression",
    [
        # Beside the block's first bytes there are others': it is come to behind its start, and nowhere at its start.
        union([VALUE, choices(('"abc"x', "[1, 2]]", '{"a": nul}'))]),
        union([sequence(VALUE, Text(";")), sequence(Text('[{"'), VALUE, Text(";"))]),
        # Two ways through the same block at once, which part behind it.
        union([sequence(Text("["), VALUE, Text("!")), sequence(choices(("[", "[[")), VALUE, Text("?"))]),
        sequence(union([Text("t"), VALUE]), union([Text("rue"), mapping(VALUE, FORM)])),
        sequence(VALUE, VALUE, choices(("", "1", '"'))),
    ],
)
def test_a_block_is_what_it_is_spelled_out(expression: Expression, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = compile_bytes(expression)
    reached, left = {blocks.start}, [blocks.start]
    while left:
        fresh = set(blocks.next_SG[left.pop()].tolist()) - reached - {-1}
        reached |= fresh
        left += fresh
    assert len(reached) == len(blocks.accepting_S)
    monkeypatch.setattr(Survey, "stands_alone", lambda self, expression: False)
    spelled = compile_bytes(expression)
    assert same(blocks, spelled)
    assert len(blocks.accepting_S) == len(spelled.accepting_S)
