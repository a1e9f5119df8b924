"""Penalties that nobody gave come from numbers of the card."""

from __future__ import annotations

from fisherleak.releasing.noise.penalties import PENALTIES, PublicPenalty


def test_penalties_lie_between_two_ends() -> None:
    assert PublicPenalty(86, 30_000, 0.5, 26.9).l2 == 0.017
    assert PublicPenalty(86, 30_000, 50.0, 26.9).l2 == PENALTIES[0]
    assert PublicPenalty(86, 100, 0.05, 26.9).l2 == PENALTIES[-1]


def test_of_several_classes_noise_costs_by_the_square_of_the_penalty() -> None:
    """Iris, wine and digits; between the same ends; the least of the two costs is there."""
    sizes = ((15, 150, 6.58, 3), (42, 180, 14.9, 3), (570, 1800, 68.2, 10))
    assert [PublicPenalty(p, n, 0.5, R, K).l2 for p, n, R, K in sizes] == [1.7, 3.7, 3.5]
    assert PublicPenalty(15, 10**6, 1.0, 6.58, 3).l2 == PENALTIES[0]
    assert PublicPenalty(570, 1800, 0.01, 68.2, 10).l2 == PENALTIES[-1]
    p, n, R, K = sizes[1]

    def cost(l2: float) -> float:
        return p * R**2 / (2 * K * (n * l2 * 0.5) ** 2) + l2 * 0.125**2 / 2

    assert cost(3.7) < min(cost(3.5), cost(3.9))
