r"""The white-box attacker who also saw what the released model answered for the record itself.

A model that is released is also used: a record's score, or its class, is served to whoever asks. With the answer
:math:`a = A(w', x_i)` for the record as it is, only candidates with the same answer can be its value:

.. math:: \hat k = \arg\max_{k:\, A(w', x_{ik}) = a}\; \log p_{ik} + \log f(w' - w_k)

Where scores are served exactly, a candidate is told from another as soon as their features differ in a released coefficient.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from fisherleak._support.arrays import Array, host
from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import Estimator, TableLike, VectorLike
from fisherleak.attacks.ideal import beliefs_of, learned_from
from fisherleak.attacks.outcome import Outcome
from fisherleak.attacks.white_box import WhiteBox
from fisherleak.engine.noise import Noise
from fisherleak.engine.outputs.several_fit import OutputsFit
from fisherleak.errors import InvalidInputError, UnsupportedModelError

__all__ = ["Served"]

DRAWS = 200
"""Releases that are simulated."""


class Served(WhiteBox):
    """Knows all other data, the prior and the noise, sees the released parameters and the answer served for the record.

    Parameters as for every attacker, and:

    Parameters
    ----------
    answer : {"label", "score"}
        What is served: the class, or the score (what the model predicts, before a link). "label" by default for classifiers,
        "score" else.
    step : float
        Scores are served rounded to multiples of this; 0, the default, as they are.
    informed : bool
        Whether the prior is that of :class:`Informed`, what the other columns suggest.

    Notes
    -----
    Simulated, for any noise: there is no closed form, and a limit on its accuracy (``calibrate``) is refused. The answer comes
    from the same release that is seen: it adds nothing about other people, and everything about what the model makes of this
    one.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> attack = fl.attacks.Served(LinearRegression().fit(X, y), X, y, "sex", rows=range(50))
    >>> attack.against(fl.Gaussian(10.0)).accuracy  # an exact score tells the value, whatever the noise
    1.0
    """

    def __init__(
        self,
        model: Estimator,
        X: TableLike,
        y: VectorLike,
        attribute: str | int | tuple[str, int],
        *,
        answer: str | None = None,
        step: float = 0.0,
        informed: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(model, X, y, attribute, use_prior=True, **options)
        self._serve(answer, step, informed)

    def _serve(self, answer: str | None, step: float, informed: bool) -> None:
        if isinstance(self.target.fit, OutputsFit):
            raise UnsupportedModelError(
                f"A model of {self.target.fit.coef.shape[0]} outputs is not supported by Served, which knows one: "
                "attack it with WhiteBox."
            )
        classes = self.target.fit.loss.labels.binary
        if answer not in (None, "label", "score") or (answer == "label" and not classes):
            known = "'label' or 'score'" if classes else "'score', since the model has no classes"
            raise InvalidInputError(f"answer must be {known}; got {answer!r}.")
        self.answer = answer or ("label" if classes else "score")
        self.step = check_positive(step, "step", zero=True)
        if informed:
            self.target = replace(self.target, beliefs=beliefs_of(self.target, learned_from(self.target)))
        self._use(True)

    def _use(self, prior: bool) -> None:
        self.use_prior = prior
        self.name = "white-box, served answer"

    @classmethod
    def like(cls, other: WhiteBox) -> Served:
        """The same attack as another's, with its prior, who sees answers too; what the parameters' moves cost is paid once."""
        made = cls._of(other.target)
        vars(made)["moves"] = other.moves
        made._serve(None, 0.0, False)
        return made

    def accuracy(self, noise: Noise, draws: int = DRAWS, random_state: Any = 0, over: str = "rows") -> Array:
        """Expected accuracy of each attacked row when the model is released with this noise, (m,); simulated."""
        if over != "rows":
            raise InvalidInputError(f"over must be 'rows': what is served is for the rows as they are; got {over!r}.")
        return self._tallied(self._drawn(noise, draws, random_state), noise)[0]

    def certain_accuracy(self, noise: Noise) -> Array:
        """Refused: there is no closed form to be certain of."""
        raise InvalidInputError(
            "Served is simulated, and a limit on its accuracy would not be certain: calibrate with WhiteBox, and serve fewer "
            "digits."
        )

    def _against_noise(self, noise: Noise, draws: int, random_state: Any) -> Outcome:
        return self._scored(self._drawn(noise, draws, random_state), True, noise)

    def guess(self, theta: Any, noise: Noise | None = None) -> Array:
        """See :meth:`Attacker.guess`; the noise must be known."""
        if noise is None:
            raise InvalidInputError(
                "The attacker who sees answers must know the noise of the release: pass noise=fisherleak.Gaussian(scale)."
            )
        order = self.target.by_prior
        truth = np.argsort(order)[host(self.target.truth)]
        seen = self._answers(theta)
        same = seen == np.take_along_axis(seen, np.broadcast_to(truth, (1, *seen.shape[1:])), axis=0)
        best = self._best(self._stacked, theta - host(self.target.fit.theta)[None, :], noise, same)
        return np.asarray(order[host(best)])

    @cached_property
    def _with_candidates(self) -> Any:
        """Features of the attacked rows with each candidate, the most probable first, and a constant: (k, m, p)."""
        made = np.stack([host(self.target.changed(k)) for k in self.target.by_prior.tolist()])
        if self.target.fit.intercept is None:
            return made
        return np.concatenate([made, np.ones((*made.shape[:2], 1))], axis=2)

    def _answers(self, theta: Any) -> Any:
        """What releases (T, p) answer for each candidate, (k, T, m)."""
        score = theta @ self._with_candidates.transpose(0, 2, 1)
        if self.answer == "label":
            return score > 0
        return np.round(score / self.step) if self.step else score
