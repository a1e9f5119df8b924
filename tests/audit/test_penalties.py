"""Penalties that nobody gave come from numbers of the card."""

from __future__ import annotations

from fisherleak.audit.penalties import PENALTIES, PublicPenalty


def test_penalties_lie_between_two_ends() -> None:
    assert PublicPenalty(86, 30_000, 0.5, 26.9).l2 == 0.017
    assert PublicPenalty(86, 30_000, 50.0, 26.9).l2 == PENALTIES[0]
    assert PublicPenalty(86, 100, 0.05, 26.9).l2 == PENALTIES[-1]


def test_of_several_classes_they_are_on_a_grid_and_the_limit_does_not_matter() -> None:
    for limit in (0.1, 1.0):
        assert [PublicPenalty(p, n, limit).l2 for p, n in ((15, 150), (255, 30_000), (900, 20))] == [1.0, 0.1, 10.0]
