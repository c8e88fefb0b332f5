"""Examples of the documentation run as they stand."""

import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gesso.api import load
from gesso.diffusion.samplers import SAMPLERS
from gesso.errors import OptionError
from gesso.models.card import read_card
from gesso.models.hub import bundled, resolve

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("control.md", "return x + 7"),
        ("lab.md", "1, 2, 3"),
        ("python.md", "777"),
        ("vision.md", "4071\n4071\n"),
    ],
)
def test_the_python_of_a_page_runs(
    page: str, printed: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    red, green = (Image.new("RGB", (96, 96), colour) for colour in ("red", "green"))
    red.save(tmp_path / "clip.gif", save_all=True, append_images=[green], duration=1000)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)  # noqa: S102
    assert printed in capsys.readouterr().out


def test_the_table_of_the_readme_is_the_card_of_the_model() -> None:
    """`gesso models show mini` reads the card; whoever trains anew writes both."""
    card = read_card(resolve("mini"))
    assert card is not None
    _, *rows = re.findall(r"^\| .*%.*\|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == len(card.skills)
    for row, skill in zip(rows, card.skills, strict=True):
        _, _, right, interval, goal, steps = (cell.strip() for cell in row.strip("|").split("|"))
        assert right == f"{skill.right:.1%}"
        assert interval == f"{skill.low:.1%} to {skill.high:.1%}"
        assert (goal, steps) == (f"{skill.goal:.0%}", f"{skill.steps:.1f}")


def test_every_bundled_model_has_a_card() -> None:
    for name in bundled():
        card = read_card(resolve(name))
        assert card is not None
        assert card.skills
        assert card.limits
        assert all(skill.low <= skill.right <= skill.high for skill in card.skills)


def test_the_sampler_of_the_contributors_guide_works() -> None:
    """It is registered by its file alone, and its options are known everywhere."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    engine = load("mini", "cpu")
    try:
        exec(block, {"__name__": "guide"})  # noqa: S102
        result = engine.generate("What is 9 + 4?", sampler="surest_share", share=0.5, fewest=2, seed=1)
        assert result.text == "13"
        with pytest.raises(OptionError, match="share must be"):
            engine.generate("x", sampler="surest_share", share=2.0)
    finally:
        SAMPLERS.unregister("surest_share")


def test_the_layers_name_every_package() -> None:
    (picture,) = re.findall(r"## Layers\n.*?```\n(.*?)```", (DOCS / "architecture.md").read_text("utf-8"), re.DOTALL)
    named = set(re.findall(r"(?:^| )(\w+(?:/|\.py))", picture, re.MULTILINE))
    found = (ROOT / "src" / "gesso").glob("[a-z]*")
    here = {f"{path.name}/" if path.is_dir() else path.name for path in found if path.suffix in ("", ".py")}
    assert named - here == {"host/"}
    assert here <= named


PAGES = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    *sorted(str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md")),
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_marks_of_a_merge(page: str) -> None:
    assert not re.findall(r"^(?:<{7}|>{7}) .*", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_links_to_is_there(page: str) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / page).read_text(encoding="utf-8")):
        if not target.startswith("https://"):
            assert ((ROOT / page).parent / target).exists(), target


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES)
def test_sections_that_a_page_links_to_are_there(page: str) -> None:
    for target, section in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", (ROOT / page).read_text(encoding="utf-8")):
        if not target.startswith("https://"):
            linked = ROOT / page if not target else (ROOT / page).parent / target
            assert linked.suffix != ".md" or section in anchors(linked), f"{target}#{section}"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_commands_of_a_page_name_are_there(page: str) -> None:
    """Paths from the root of the repository, in blocks for the shell."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    for path in re.findall(r"(?<![\w/.-])(?:examples|src|docs|benchmarks)/[\w/.-]+", "\n".join(blocks)):
        assert (ROOT / path.rstrip(".")).exists(), path
