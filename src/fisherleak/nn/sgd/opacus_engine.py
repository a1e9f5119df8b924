"""Steps of an Opacus engine, counted beside its epsilon: what it does otherwise than is counted is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from fisherleak.errors import InvalidInputError

__all__ = ["count_steps"]


class Counting(Protocol):
    """What is told of every step."""

    max_grad_norm: float
    sampling: str

    def step(self, noise_multiplier: float | None = None, sample_rate: float | None = None) -> Any:
        """Add one step with its noise and rate."""


def count_steps(accountant: Counting, engine: Any) -> None:
    """Have an engine that makes nothing private yet tell an accountant of its steps."""
    books: Any = getattr(engine, "accountant", None)
    if not hasattr(books, "get_optimizer_hook_fn") or not hasattr(engine, "make_private"):
        raise InvalidInputError(
            f"attach takes an Opacus PrivacyEngine, before make_private; got {type(engine).__name__}."
        )
    original = books.get_optimizer_hook_fn

    def hook_of(sample_rate: float) -> Callable[[Any], None]:
        theirs = original(sample_rate)

        def hook(optimizer: Any) -> None:
            if optimizer.max_grad_norm != accountant.max_grad_norm:
                raise InvalidInputError(
                    f"max_grad_norm is {accountant.max_grad_norm} here and {optimizer.max_grad_norm} in the engine; "
                    "pass the same number to both."
                )
            accountant.step(optimizer.noise_multiplier, sample_rate * getattr(optimizer, "accumulated_iterations", 1))
            theirs(optimizer)

        return hook

    books.get_optimizer_hook_fn = hook_of
    _hold_to(accountant, engine)


def _hold_to(accountant: Counting, engine: Any) -> None:
    """Refuse an engine that clips or samples in another way than is counted."""
    make_private = engine.make_private

    def checked(*args: Any, **options: Any) -> Any:
        clipping = options.get("clipping", "flat")
        if clipping != "flat":
            raise InvalidInputError(
                f"clipping is {clipping!r} in the engine, and one clip of all parameters together is counted: leave it at "
                "'flat'."
            )
        if accountant.sampling == "poisson" and not options.get("poisson_sampling", True):
            raise InvalidInputError(
                "poisson_sampling is False in the engine, and Poisson sampling is counted: make the accountant with "
                "sampling='fixed', or leave poisson_sampling at True."
            )
        return make_private(*args, **options)

    engine.make_private = checked
