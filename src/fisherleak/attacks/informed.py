r"""The white-box attacker with a prior of each row: what the other columns and the label suggest about its value.

.. math:: \hat k = \arg\max_k\; \log P_{ik} + \log f(w' - w_k)

with :math:`P_{ik}` from a model that learned on other rows (``ideal``), f the density of the noise and :math:`w_k` the model
that would have been fitted with candidate k. Its accuracy has the closed form of :class:`WhiteBox`.
"""

from __future__ import annotations

from typing import Any

from fisherleak._support.namespaces import Estimator, TableLike, VectorLike
from fisherleak.attacks.candidates import candidates_of
from fisherleak.attacks.population_attacker import Learned, beliefs_of, learned_from
from fisherleak.attacks.white_box import WhiteBox
from fisherleak.errors import InvalidInputError


class Informed(WhiteBox):
    """Knows all other data and the noise, and what the row's other columns and label suggest about the value.

    The strongest attacker on an attribute here: someone who knows the population and the person, and sees the release.
    Beliefs are cross-fitted, a row's own by models that never saw it, with gradient-boosted trees or logistic regression,
    whichever says the values of rows set aside better. Parameters as for every attacker but ``prior``.

    Notes
    -----
    With his baseline, that of his beliefs alone, the difference is due to the release. Exact for two and three candidates and
    normal noise, simulated with the noise's density else.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = LinearRegression().fit(X, y)
    >>> attack = fl.attacks.Informed(model, X, y, "sex", rows=range(100))
    >>> outcome = attack.against(fl.Gaussian(1.0))
    >>> bool(outcome.accuracy > outcome.baseline > 0.6)
    True
    """

    of_people = False

    def __init__(
        self, model: Estimator, X: TableLike, y: VectorLike, attribute: str | int | tuple[str, int], **options: Any
    ) -> None:
        if "prior" in options:
            raise InvalidInputError(
                "Informed learns its own prior of each row; WhiteBox(..., prior=P, use_prior=True) takes one of shape (n, k)."
            )
        known = {name: options.pop(name, None) for name in ("values", "sample_weight", "rows")}
        if options:
            raise InvalidInputError(f"Informed has no option '{next(iter(options))}'; known are {', '.join(known)}.")
        target = candidates_of(model, X, y, attribute, known["values"], known["sample_weight"], None, known["rows"])
        self._inform(target)

    def _inform(self, target: Any, learned: Learned | None = None) -> None:
        from dataclasses import replace

        self.learned = learned_from(target) if learned is None else learned
        self.target = replace(target, beliefs=beliefs_of(target, self.learned))
        self._use(True)

    def _use(self, prior: bool) -> None:
        self.use_prior = prior
        self.name = "white-box, other columns"

    @classmethod
    def like(cls, other: WhiteBox, learned: Learned | None = None) -> Informed:
        """The same attack as another's, informed, by what was learned before if it was; moves of parameters are paid once."""
        made = cls.__new__(cls)
        vars(made)["moves"] = other.moves
        made._inform(other.target, learned)
        return made
