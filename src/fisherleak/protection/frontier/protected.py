"""Protected: the best model under a limit, chosen, fitted and released in one ``fit``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from sklearn.base import clone

from fisherleak._support.checks import check_flag
from fisherleak._support.namespaces import Estimator, Json, Seed, TableLike, VectorLike
from fisherleak.engine.noise.add_noise_and_round import generator
from fisherleak.engine.noise.calibrated import ADMISSIBLE
from fisherleak.errors import InvalidInputError
from fisherleak.models.wrapper import Wrapper
from fisherleak.protection.frontier.counted_choice import SHARE
from fisherleak.protection.frontier.frontier import protect
from fisherleak.protection.frontier.protect_arguments import listed_weightings

__all__ = ["Protected"]


class Protected(Wrapper):
    """A most accurate candidate that keeps everyone below a limit, its choice counted, released.

    Parameters
    ----------
    estimator : scikit-learn model
        Any that :func:`fisherleak.measure` reads.
    eta : float
        The limit.
    over : {"admissible", "max"}
        Whose etas are limited.
    penalties, weightings, shapes, bounds, public, held_out
        As in :func:`fisherleak.protect`; without IRFIL's weights by default, since nobody counts what these tell.
    counted : bool
        Draw the candidate so that the choice is counted (:meth:`fisherleak.Frontier.choose`). False takes the best one, and
        ``UncountedChoiceWarning`` says that eta does not count it.
    share : float
        Part of the limit that a counted choice may tell.
    random_state : int or Generator, optional
        For tests only, with ``SeededReleaseWarning``: without one the noise is made of the operating system's randomness.

    Attributes
    ----------
    estimator_ : scikit-learn model
        The released model: the only one to pass on.
    choice_ : FrontierPoint
        What was chosen, with its held-out loss. Derived from the data, and in no copy or pickle.
    promise_ : dict or None
        What may be passed on with the model: what was chosen, the limit, and how it is shared between choice and noise. None
        where the choice is not counted.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = fl.Protected(Ridge(), eta=5.0, penalties=[1.0], weightings=["none"], shapes=["hessian"])
    >>> model.fit(X, y / y.std()).choice_.shape
    'hessian'
    >>> model.promise_["eta_choice"]  # one candidate: nothing to choose
    0.0
    """

    def __init__(
        self,
        estimator: Estimator,
        eta: float = 1.0,
        over: str = ADMISSIBLE,
        penalties: Sequence[float] = (1.0, 10.0, 100.0),
        weightings: Sequence[str] = ("none",),
        shapes: Sequence[str] | None = None,
        bounds: Mapping[str, Any] | None = None,
        public: str = "nothing",
        held_out: float = 0.25,
        counted: bool = True,
        share: float = SHARE,
        random_state: Seed = None,
    ) -> None:
        self.estimator = estimator
        self.eta = eta
        self.over = over
        self.penalties = penalties
        self.weightings = weightings
        self.shapes = shapes
        self.bounds = bounds
        self.public = public
        self.held_out = held_out
        self.counted = counted
        self.share = share
        self.random_state = random_state

    def fit(self, X: TableLike, y: VectorLike) -> Self:
        """Look at all candidates, and release one, fitted on all rows."""
        weightings = listed_weightings(self.weightings)
        if check_flag(self.counted, "counted") and set(weightings) != {"none"}:
            raise InvalidInputError(
                f"weightings must be ['none'] where the choice is counted, since what IRFIL's weights tell is not; got "
                f"{list(weightings)!r}. Leave them out, or use counted=False, which warns."
            )
        frontier = protect(
            self.estimator,
            X,
            y,
            self.eta,
            over=self.over,
            penalties=self.penalties,
            weightings=self.weightings,
            shapes=self.shapes,
            bounds=self.bounds,
            public=self.public,
            held_out=self.held_out,
            random_state=self.random_state,
        )
        rng = None if self.random_state is None else generator(self.random_state)
        self.promise_: Json | None
        if self.counted:
            choice = frontier.choose(share=self.share, random_state=rng)
            self.choice_, self.promise_ = choice.point, choice.record()
            self.estimator_ = frontier.release(choice=choice, random_state=rng)
        else:
            self.choice_, self.promise_ = frontier.best(), None
            self.estimator_ = frontier.release(random_state=rng, counted=False)
        return self

    def __getstate__(self) -> Any:
        # an estimator that was passed in fitted would carry the model without noise along
        state = dict(super().__getstate__())
        state["estimator"] = clone(self.estimator)
        state.pop("choice_", None)  # its loss is exact
        return state
