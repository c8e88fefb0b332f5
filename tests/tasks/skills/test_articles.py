"""Articles are those that are said."""

import pytest

from gesso.tasks.skills.articles import with_articles


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ("a owl and a apple", "an owl and an apple"),
        ("What a honest maker!", "What an honest maker!"),
        ("A hour in a hotel", "An hour in a hotel"),
        ("a heir, a honour, a honorary member", "an heir, an honour, an honorary member"),
        ("a euro, a user, a unit, a one-way ticket, a ukulele", "a euro, a user, a unit, a one-way ticket, a ukulele"),
        ("a unimportant uncle, a understood urn", "an unimportant uncle, an understood urn"),
        ("is it a or b, and is a of use", "is it a or b, and is a of use"),
        ("banana eagle", "banana eagle"),
    ],
)
def test_an_stands_before_what_is_heard_as_a_vowel(given: str, right: str) -> None:
    assert with_articles(given) == right
