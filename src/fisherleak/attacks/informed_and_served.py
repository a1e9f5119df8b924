r"""The white-box attacker with a prior of each row: what the other columns and the label suggest about its value.

.. math:: \hat k = \arg\max_k\; \log P_{ik} + \log f(w' - w_k)

with :math:`P_{ik}` from a model that learned on other rows (``ideal``), f the density of the noise and :math:`w_k` the model
that would have been fitted with candidate k. Its accuracy has the closed form of :class:`WhiteBox`.

Also here: the attacker who also saw what the released model answered for the record itself.

A model that is released is also used: a record's scores, its class or the probabilities of all classes are served to whoever
asks. With the answer :math:`a = A(w', x_i)` for the record as it is, only candidates with the same answer can be its value:

.. math:: \hat k = \arg\max_{k:\, A(w', x_{ik}) = a}\; \log p_{ik} + \log f(w' - w_k)

Where scores are served exactly, a candidate is told from another as soon as their features differ in a released coefficient.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import softmax

from fisherleak._support.arrays import Array, host
from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import Estimator, TableLike, Vector, VectorLike
from fisherleak.attacks.base import Outcome, aimed
from fisherleak.attacks.candidate_values import classifies
from fisherleak.attacks.candidates import candidates_of
from fisherleak.attacks.likelihoods import ANSWERS_AT_ONCE, classes_said, linear_scores, with_ones
from fisherleak.attacks.population_attacker import Learned, beliefs_of, learned_from
from fisherleak.attacks.white_box import WhiteBox
from fisherleak.engine.noise import Noise
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
    names = ("white-box, other columns",) * 2

    def __init__(
        self, model: Estimator, X: TableLike, y: VectorLike, attribute: str | int | tuple[str, int], **options: Any
    ) -> None:
        if "prior" in options:
            raise InvalidInputError(
                "Informed takes no prior, because it learns one for each row: leave prior out. To give one of shape (n, k), "
                "use WhiteBox(..., prior=P, use_prior=True)."
            )
        known = {name: options.pop(name, None) for name in ("values", "sample_weight", "rows")}
        if options:
            raise InvalidInputError(f"Informed has no option '{next(iter(options))}'; known are {', '.join(known)}.")
        target = candidates_of(model, X, y, attribute, known["values"], known["sample_weight"], None, known["rows"])
        self._inform(target)

    def _inform(self, target: Any, learned: Learned | None = None) -> None:
        self.learned = learned_from(target) if learned is None else learned
        self.target = replace(target, beliefs=beliefs_of(target, self.learned))
        self._use(True)

    @classmethod
    def like(cls, other: WhiteBox, learned: Learned | None = None) -> Informed:
        """The same attack as another's, informed, by what was learned before if it was; moves of parameters are paid once."""
        made = cls.__new__(cls)
        vars(made)["moves"] = other.moves
        made._inform(other.target, learned)
        return made


DRAWS = 200
"""Releases that are simulated."""


class Served(WhiteBox):
    """Knows all other data, the prior and the noise, sees the released parameters and the answer served for the record.

    Parameters as for every attacker, and:

    Parameters
    ----------
    answer : {"label", "score", "probability"}
        What is served: the class, the score (what the model predicts, before a link), or the probability of every class
        (logistic and softmax loss). A model of several classes or numbers has a score for each, all of them served. "label"
        by default for classifiers, "score" else.
    step : float
        Scores and probabilities are served rounded to multiples of this; 0, the default, as they are.
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
    >>> attack.against(fl.Gaussian(10.0)).accuracy  # an exact score shows the value, whatever the noise
    1.0
    """

    of_people = False
    names = ("white-box, served answer",) * 2

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
        classes = classifies(self.target.model, self.target.fit)
        known = ["score", *(["label"] if classes else []), *(["probability"] if self._has_probabilities else [])]
        if answer is not None and answer not in known:
            listed = " or ".join(repr(each) for each in known)
            why = "" if classes else ", since the model has no classes"
            raise InvalidInputError(f"answer must be {listed}{why}; got {answer!r}.")
        self.answer = answer or ("label" if classes else "score")
        self.step = check_positive(step, "step", zero=True)
        if self.step and self.answer == "label":
            raise InvalidInputError(
                f"step is for rounding scores and probabilities, and here labels are served; got {step!r}. Leave it out."
            )
        if informed:
            self.target = replace(self.target, beliefs=beliefs_of(self.target, learned_from(self.target)))
        self._use(True)

    @classmethod
    def like(cls, other: WhiteBox) -> Served:
        """The same attack as another's, with its prior, who sees answers too; what the parameters' moves cost is paid once."""
        made = aimed(cls, other.target)
        vars(made)["moves"] = other.moves
        made._serve(None, 0.0, False)
        return made

    def accuracy(self, noise: Noise, draws: int = DRAWS, random_state: Any = 0, over: str = "rows") -> Array:
        """Expected accuracy of each attacked row when the model is released with this noise, (m,); simulated."""
        if over != "rows":
            raise InvalidInputError(
                f"over must be 'rows': the answers served are those for the rows' own values; got {over!r}."
            )
        return self._tallied(self._drawn(noise, draws, random_state), noise)[0]

    def certain_accuracy(self, noise: Noise) -> Array:
        """Refused: there is no closed form to be certain of."""
        raise InvalidInputError(
            "Served is simulated, and a limit on its accuracy would not be certain. Calibrate with WhiteBox in its place, or "
            "serve answers of fewer digits."
        )

    def _against_noise(self, noise: Noise, draws: int, random_state: Any) -> Outcome:
        return self._scored(self._drawn(noise, draws, random_state), True, noise)

    def guess(self, theta: Any, noise: Noise | None = None) -> Array:
        """See :meth:`Attacker.guess`; the noise must be known."""
        if noise is None:
            raise InvalidInputError(
                "The attacker who sees answers must know the noise of the release: pass noise=fisherleak.Gaussian(scale)."
            )
        target = self.target
        most = max(1, ANSWERS_AT_ONCE // (target.k * target.m * target.fit.outputs))
        same = np.concatenate([self._same(theta[t : t + most]) for t in range(0, theta.shape[0], most)], axis=1)
        best = self._best(self._stacked, theta - host(target.fit.theta)[None, :], noise, same)
        return np.asarray(target.by_prior[host(best)])

    @property
    def _has_probabilities(self) -> bool:
        loss = self.target.fit.loss
        return bool(loss.labels.binary or getattr(loss, "shares", False))

    @cached_property
    def _with_candidates(self) -> Vector:
        """Features of the attacked rows with each candidate, the most probable first, and ones: (k, m, p)."""
        made = np.stack([host(self.target.changed(k)) for k in self.target.by_prior.tolist()])
        return with_ones(made, self.target.fit)

    def _same(self, theta: Vector) -> Any:
        """For which candidates releases (T, p) answer as they do for the record itself, (k, T, m)."""
        answers = self._answers(linear_scores(self._with_candidates, theta, self.target.fit))
        truth = np.argsort(self.target.by_prior)[host(self.target.truth)]
        own = answers[truth, np.arange(self.target.m)]
        return np.all(answers == own[None], axis=-1).transpose(0, 2, 1)

    def _answers(self, scores: Vector) -> Any:
        """What is served where a release has these scores: (…, K) to (…, numbers of an answer)."""
        if self.answer == "label":
            return classes_said(scores)[..., None]
        if self.answer == "probability":
            scores = softmax(scores, axis=-1) if scores.shape[-1] > 1 else self.target.fit.loss.mean(scores)
        return np.round(scores / self.step) if self.step else scores
