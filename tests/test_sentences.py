"""The sentences of refusals and warnings, all in one file, by the rules of how we write."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest

import fisherleak as fl
import sentences
from fisherleak.cli._app import COMMANDS

MOST_WORDS = 25
"""In one go: up to a full stop, a colon or a semicolon."""
SAID = [(module, sentence) for module, said in sentences.sentences().items() for sentence in said]
LEFT_BEHIND = re.compile(
    r"\b(rightly|whoever|admissible|presence|told|in the house|standard units?|(?:held|hold|holds it) against|leans|(?<!model )cards?"
    r"|levels? (?:of|that)|(?:noise's|of the|another|its) shape|guessing|analyz\w*|behavior|colou?r of|center\w*|normaliz\w*)\b",
    re.IGNORECASE,
)
"""Words that the glossary replaces, and American spellings."""


NOT_IN_DOCSTRINGS = re.compile(
    r"\b(rightly|whoever|admissible|presence|told|tells?|nobody|somebody|anew|in the house|standard units?|leans?|"
    r"(?:held|hold|holds) (?:it )?against|in the middle|own shape|noise's shape|whose shape|its card|the card says|right about)\b"
)
"""The same, as pages of the reference and ``help()`` show it."""


def docstrings() -> Iterator[tuple[str, str]]:
    """Of every public name, of its public methods and properties, and of every command."""
    for module in (fl, fl.attacks, fl.bounds, fl.datasets):
        for name in module.__all__:
            public = getattr(module, name)
            own = vars(public).items() if inspect.isclass(public) else ()
            shown = [part for key, part in own if not key.startswith("_")]
            parts = [part for part in shown if callable(part) or isinstance(part, property)]
            yield from ((f"{module.__name__}.{name}", inspect.getdoc(each) or "") for each in (public, *parts))
    yield from ((command.__name__, inspect.getdoc(command) or "") for command in COMMANDS)


def test_the_table_is_that_of_the_sources() -> None:
    assert sentences.FILE.read_text(encoding="utf-8") == sentences.as_text(), "run python tests/sentences.py --write"


def test_most_refusals_are_found() -> None:
    """A sentence that is put together out of sight would be missing from the table."""
    assert len(SAID) > 900


@pytest.mark.parametrize("module", list(sentences.sentences()))
def test_nothing_has_to_be_read_twice(module: str) -> None:
    for sentence in sentences.sentences()[module]:
        plain = re.sub(r"\([^()]*\)", "", re.sub(r"\{[^{}]*\}", "X", sentence))
        for part in re.split(r"[.:;?!](?:\s|$)", plain):
            assert len(part.split()) <= MOST_WORDS, part
        assert not LEFT_BEHIND.search(re.sub(r"`[^`]*`", "", plain)), sentence


def test_docstrings_of_public_names_use_the_terms() -> None:
    found = [(name, NOT_IN_DOCSTRINGS.findall(re.sub(r"`[^`]*`", "", said))) for name, said in docstrings()]
    assert len(found) > 200
    assert [each for each in found if each[1]] == []
