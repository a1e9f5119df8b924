"""The sentences of refusals and warnings, all in one file, by the rules of how we write."""

from __future__ import annotations

import re

import pytest

import sentences

MOST_WORDS = 25
"""In one go: up to a full stop, a colon or a semicolon."""
SAID = [(module, sentence) for module, said in sentences.sentences().items() for sentence in said]
LEFT_BEHIND = re.compile(
    r"\b(rightly|whoever|admissible|presence|told|in the house|standard units?|(?:held|hold|holds it) against|leans|(?<!model )cards?"
    r"|levels? (?:of|that)|(?:noise's|of the|another|its) shape|guessing|analyz\w*|behavior|colou?r of|center\w*|normaliz\w*)\b",
    re.IGNORECASE,
)
"""Words that the glossary replaces, and American spellings."""


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
