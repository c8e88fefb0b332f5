"""The page of the Python interface: attributes, types of results, and what results are made of."""

import dataclasses
from dataclasses import dataclass, field
from typing import Literal

import gesso
from gesso.cli.reference import api_reference
from gesso.cli.reference_classes import attribute_table, named_dataclasses, signature_of


@dataclass
class Inner:
    """Holds a part."""

    count: int


@dataclass
class Outer:
    """Holds parts."""

    parts: tuple[Inner, ...]
    """All of them,
    in order."""
    kind: Literal["a", "b"] | None = None
    hidden: Exception | None = field(default=None, repr=False)
    _own: int = 0

    @property
    def size(self) -> int:
        """Returns the number of parts.

        Raises:
            ValueError: never.
        """
        return len(self.parts)

    def grown(self, by: int, *, kind: str = "a") -> "Outer":
        """Returns a larger one."""
        raise NotImplementedError


def test_a_class_shows_its_public_fields_and_properties() -> None:
    assert attribute_table(Outer).splitlines()[2:] == [
        "| `parts` | tuple[Inner, ...] | All of them, in order. |",
        "| `kind` | Literal['a', 'b'] or None |  |",
        "| `hidden` | Exception or None |  |",
        "| `size` | int | The number of parts. |",
    ]


def test_a_call_shows_its_defaults_and_what_it_returns() -> None:
    assert signature_of("grown", Outer.grown) == "grown(by, *, kind='a') -> Outer"
    assert signature_of("fill", gesso.fill).endswith(" -> FillResult")
    assert signature_of("cancel", gesso.Stream.cancel) == "cancel()"


def test_what_a_type_is_made_of_is_found() -> None:
    assert named_dataclasses([list[Outer] | None]) == [Outer, Inner]


def test_the_page_has_every_attribute_of_results_and_events() -> None:
    page = api_reference()
    for kind in (gesso.GenerationResult, gesso.DenoisingFrame, gesso.BlockCommitted, gesso.Finished):
        section = page.partition(f"\n## gesso.{kind.__name__}\n")[2].partition("\n## ")[0]
        assert [f"| `{each.name}` |" in section for each in dataclasses.fields(kind)] == [True] * len(
            dataclasses.fields(kind)
        )
    for name in ("control.fill_result.FilledHole", "engine.result.TokenLogprob", "text.tool_calls.ToolCall"):
        assert f"\n## gesso.{name}\n" in page
