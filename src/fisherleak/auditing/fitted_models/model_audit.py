"""``fl.audit``: all that an audit of a table says, for a model that was fitted elsewhere.

What it reveals is measured as ``fl.measure`` does; utility, attacks, choices and what to do next are those of a table's audit.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fisherleak._support.checks import check_positive, check_range
from fisherleak._support.grids import rounded_up
from fisherleak._support.namespaces import Estimator, TableLike, VectorLike
from fisherleak._support.notebook import panel
from fisherleak._support.numbers import except_for, number
from fisherleak._support.pickles import Pickled
from fisherleak._support.progress import doing
from fisherleak.auditing.exposure.revealed import exposure_at
from fisherleak.auditing.fitted_models.attacked_model import AttackRun, attacked_model
from fisherleak.auditing.fitted_models.judged_model import SCOPE, advice_on_rules, judge_model
from fisherleak.auditing.fitted_models.measured_etas import MeasuredEtas
from fisherleak.auditing.fitted_models.policy_on_model import apply_to_fitted, policy_from
from fisherleak.auditing.fitted_models.scored_model import ScoredRows, scored_model
from fisherleak.auditing.fitted_models.stated_arguments import (
    confirmed_name,
    name_of_column,
    stated_of,
    whose_rows_are,
)
from fisherleak.auditing.fitted_models.summary_of_leakage import (
    LABEL,
    Exposures,
    check_reportable,
    exposures_of,
    summary_of_leakage,
)
from fisherleak.auditing.fitted_models.under_attack import columns_to_attack
from fisherleak.auditing.policy.advice import EVEN, NOT_ASKED, TENTH, Findings, advice_from, choices_at
from fisherleak.auditing.policy.policy import Policy
from fisherleak.auditing.records import Attacked, Plan
from fisherleak.auditing.report_summary import AddedNoise, DistinguishableColumn, Next, Summary
from fisherleak.auditing.summary_parts import checked_policy, choices_with_cost, outcomes_of, utility_curve
from fisherleak.engine.fit.minimise import is_fit
from fisherleak.engine.mechanisms.interface_answers import is_interface
from fisherleak.engine.mechanisms.self_shaped import is_self_shaped
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import has_own_shape
from fisherleak.errors import FisherleakError, InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measure import measure
from fisherleak.leakage.measurement import measurement
from fisherleak.models import as_table
from fisherleak.models.steps.levels import learned_levels
from fisherleak.protection.release.release import check_releasable
from fisherleak.tables.design.whose_rows import People
from fisherleak.training.defaults import DRAWS
from fisherleak.training.model_kinds import check_metric
from fisherleak.training.noise_words import PLAIN, as_noise
from fisherleak.training.trained_model import Settings
from fisherleak.training.utility import GRID, Scored, Tradeoff, utility_of

if TYPE_CHECKING:
    import pandas

__all__ = ["ModelAudit", "audit"]

MOST_SHOWN = 5
NOT_SCORED = "What noise costs was not measured: no measure of utility is known for the loss '{}' and these labels."


@dataclass(frozen=True, repr=False)
class ModelAudit(Pickled):
    """What a fitted model reveals, what noise costs, what attackers get, and what to do. Made by :func:`audit`.

    Attributes
    ----------
    summary : Summary
        All figures, as ``summary.json`` of a table's audit has them.
    leakage : Leakage
        The same model with the same noise, for every other question.
    measured : MeasuredEtas
        Etas of every row, or of every person.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> model = LinearRegression().fit(X, y)
    >>> found = fl.audit(model, X, y, noise=20.0, max_eta=5.0, attacks=False)
    >>> found
    ModelAudit(442 rows, 10 columns, Gaussian noise of scale 20, passed)

    Examples of the methods go on from here.
    """

    summary: Summary
    leakage: Leakage = field(repr=False)
    measured: MeasuredEtas = field(repr=False)

    @property
    def passed(self) -> bool | None:
        """Whether every limit is kept; None where none was set.

        Examples
        --------
        >>> found.passed
        True
        """
        gate, policy = self.summary.gate, self.summary.policy
        if gate is None and policy is None:
            return None
        return not (gate and gate.exceeded) and (policy is None or policy.passed)

    @property
    def verdict(self) -> str:
        """What the command line prints first: who is exposed, what it costs, what to do, and the call for it.

        Examples
        --------
        >>> print(found.verdict.splitlines()[0])
        Passed: no person is above the limit of η = 5 in the units of the columns.
        """
        return str(_wording().verdict_text(self.summary))

    @property
    def rules(self) -> pandas.DataFrame:
        """One row for each rule of the policy, those that failed first: limit, value, whether it passed, and a sentence.

        Examples
        --------
        >>> found.rules.empty
        True
        """
        import pandas

        names = ("rule", "limit", "value", "passed", "note")
        rules = () if self.summary.policy is None else self.summary.policy.rules
        made = {name: pandas.Series([getattr(rule, name) for rule in rules], dtype=object) for name in names}
        return pandas.DataFrame(made).astype({"passed": bool}).set_index("rule")

    def frame(self) -> pandas.DataFrame:
        """One row for each training row, the most exposed first, as :meth:`Leakage.to_frame` has them.

        Where rows belong to people, also who each belongs to, and the eta of all of that person's rows.

        Examples
        --------
        >>> list(found.frame().columns[[0, 1, -2, -1]])
        ['eta', 'eta[age]', 'eta_label', 'membership']
        """
        made, people = self.leakage.to_frame(), self.measured.people
        if people is None:
            return made.sort_values("eta", ascending=False, kind="stable")
        whose = {"person": people.names[people.of_row], "eta_person": self.measured.eta[people.of_row]}
        return made.assign(**whose).sort_values(["eta_person", "eta"], ascending=False, kind="stable")

    def report(self, path: Any, *, overwrite: bool = False) -> Any:
        """The page that ``fisherleak audit`` writes: one HTML file that opens offline. It is as confidential as the data.

        Returns
        -------
        Path
            Where it was written.

        Examples
        --------
        >>> found.report("report.html")  # doctest: +SKIP
        """
        # a folder further down docs/design.md: loaded when called
        return import_module("fisherleak.report.outputs").write_page(self.summary, path, overwrite)

    def board(self, path: Any, *, overwrite: bool = False) -> Any:
        """One page that may be handed out: no row, the rules with passed or failed, the noise, and utility to two digits.

        Asking for it declares public which rules passed, the number of rows and utility to two digits. It needs a noise that
        was given, and shows the columns that arguments name.

        Returns
        -------
        Path
            Where it was written.

        Examples
        --------
        >>> found.board("board.html")  # doctest: +SKIP
        """
        # a folder further down docs/design.md: loaded when called
        return import_module("fisherleak.report.outputs").write_board(self.summary, path, overwrite)

    def __repr__(self) -> str:
        summary, passed = self.summary, {None: "no limit", True: "passed", False: "failed"}[self.passed]
        noise = f"{summary.noise.kind} noise of scale {number(summary.noise.scale)}"
        return f"ModelAudit({summary.data.train_rows:,} rows, {len(summary.attributes)} columns, {noise}, {passed})"

    def _repr_html_(self) -> str:
        summary, verdict = self.summary, _wording().verdict_of(self.summary)
        exposed = ", ".join(
            f"{row.called if summary.data.people is None else f'person {row.id}'}: η {number(row.eta)}"
            for row in summary.rows[:MOST_SHOWN]
        )
        pairs = [*(("", line) for line in verdict.lines), ("most exposed", exposed), ("", verdict.cost)]
        pairs += [("next", verdict.advice), ("", verdict.command or "")]
        return panel(verdict.headline, [(name, said) for name, said in pairs if said], "As confidential as the data.")


def _wording() -> Any:
    # a folder further down docs/design.md: loaded when called
    return import_module("fisherleak.report.verdict")


def audit(
    model: Estimator,
    X: TableLike,
    y: VectorLike,
    noise: float | Noise | None = None,
    *,
    X_test: TableLike = None,
    y_test: VectorLike = None,
    person: Any = None,
    group: Any = None,
    attributes: Sequence[str] | str | None = None,
    max_eta: float | None = None,
    policy: Any = None,
    metric: str | None = None,
    sample_weight: VectorLike = None,
    public: str = "preprocessing",
    spread: Mapping[str, float] | None = None,
    attacks: bool = True,
    seed: int = 0,
    title: str | None = None,
) -> ModelAudit:
    """What a fitted model reveals about its training rows, what noise costs, and what attackers get.

    All that ``fisherleak audit`` says of a table, for any model that :func:`fisherleak.measure` reads.

    Parameters
    ----------
    model : fitted scikit-learn model, Pipeline, search, or Fit
    X, y
        The rows that it was fitted on.
    noise : float or Noise, optional
        Added to every parameter; a number is the scale of Gaussian noise. By default the least Gaussian noise at which no
        number of anyone in X is revealed by more than a tenth, and the verdict says so.
    X_test, y_test : optional
        Rows that the model has not seen, for utility. Without them utility is that of the training rows, which is too good,
        and the page says so.
    person : str or array of shape (n,), optional
        A column of X, or whose row each is: all rows of a person are one, as for :meth:`Leakage.by_person`. Etas, membership,
        limits and attacks are then of people; shares of numbers are not known of those who have several rows.
    group : str or array of shape (n,), optional
        A column of X, or the group of each row.
    attributes : names, optional
        Columns to attack; at most two with few values by default. The label is attacked in any case.
    max_eta : float, optional
        A limit on the eta of every row, in the units of the columns as ``leak.per_example()`` has it: ``passed`` says whether
        it is kept. Needs a noise.
    policy : path, mapping or Policy, optional
        Rules as ``fisherleak audit --policy`` takes them: a TOML file, or its sections. ``passed`` says whether all are kept,
        ``rules`` what became of each. Needs a noise. In rules, etas of rows and groups are in units of the columns, as for a
        table: about standard deviations or, with declared bounds, their width over the root of 12. What cannot be checked for
        a fitted model is refused by name, models of three or more classes among them.
    metric : {"accuracy", "auc", "log-loss", "r2", "deviance"}, optional
        The measure of utility that leads. By default the model's own, and the AUC where classes are uneven.
    sample_weight : array of shape (n,), optional
        The weights the model was fitted with.
    public : {"preprocessing", "nothing"}
        As for :func:`fisherleak.measure`.
    spread : mapping of name to number, optional
        How uncertain an outsider is about a numeric column, a standard deviation in its unit, as for :meth:`Leakage.revealed`.
    attacks : bool
        Whether to run the attackers, which takes most of the time.
    seed : int
        Of the noisy copies behind utility, and of the rows that are attacked.
    title : str, optional

    Returns
    -------
    ModelAudit

    Notes
    -----
    **What holds, and when.** Etas, shares and membership are those of :class:`Leakage`, under its assumptions. Utility is the
    mean over noisy copies of the model's own parameters, as ``fl.release`` draws them, without its rounding. The page and the
    verdict are as confidential as the data.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> found = fl.audit(Ridge(1.0).fit(X[:300], y[:300]), X[:300], y[:300], X_test=X[300:], y_test=y[300:])
    >>> found.passed is None, found.summary.noise.chosen
    (True, 'default')
    """
    rules = policy_from(policy)
    _check(X, noise, max_eta, rules)
    check_metric(metric)
    given = None if noise is None else as_noise(noise)
    if given is not None:
        check_range(given.scale, "noise")
    asked = [attributes] if isinstance(attributes, str) else attributes
    with doing("Measuring rows"):
        leak = measure(model, X, y, PLAIN if given is None else given, sample_weight, public=public)
        check_reportable(leak)
        scored = ScoredRows.of(X, y, X_test, y_test, seed)
        target, people = _called(y, as_table(X).names), whose_rows_are(leak, person)
        if asked is not None:
            columns_to_attack(leak, asked, target)  # refuses what is no column, attacked or not
        plan = Plan(given, attributes=asked, spread=_checked_spread(spread), policy=rules)
        settings = Settings(
            target,
            held_out=0.0,
            seed=seed,
            group=name_of_column(group, "group"),
            person=name_of_column(person, "person"),
            public=public,
        )
        on = None
        if rules is not None:
            on = apply_to_fitted(rules, model, leak, y, sample_weight, settings, plan, people)
            on = replace(on, settings=_confirmed(settings, person, group, leak))
            spread = on.rules.spreads
        exposed = exposures_of(leak, spread, people is not None and people.count < leak.n, target)
        worst = exposed.largest(leak)
        if given is None:
            scale = _default_scale(leak, worst, people)
            leak, exposed = leak.with_noise(PLAIN.rescaled(scale)), exposed.at(scale)
            worst = None if worst is None else worst / scale
        groups, measured = measurement(leak).labels(group), MeasuredEtas.of(leak, people)
        summary = summary_of_leakage(
            leak, title, groups, max_eta, spread, target=target, exposures=exposed, measured=measured, public=public
        )
    data = replace(summary.data, person_column=settings.person, group_column=settings.group)
    summary = replace(summary, data=data, seed=seed, noise=_noise(summary, given, worst, exposed))
    # who orders the rows or tries seeds would decide which are attacked, and which noise utility is measured with
    key = seed if on is None else secrets.randbits(64)
    run = AttackRun(model, X, y, sample_weight, measured, asked, () if on is None else on.rules.attacked, seed, key)
    attacked = attacked_model(run, summary) if attacks else None
    summary = _with_attacks(summary, attacked)
    cost = _cost(scored_model(model, leak, scored, metric), leak, key)
    summary = _with_utility(summary, leak, cost, attacked)
    judged = () if on is None else judge_model(on, measured, exposed, groups, attacked, cost, scored.seen)
    if on is not None:
        note = SCOPE.format(leak.n)
        summary = replace(summary, policy=checked_policy(on.policy, judged, None, note, measured.row))
    summary = _with_advice(summary, leak, worst, None if cost is None else cost.gain, _call(model, leak, given, public))
    return ModelAudit(
        replace(summary, stated=stated_of(summary, settings, plan, given, judged, y, y_test, people)), leak, measured
    )


def _confirmed(settings: Settings, person: Any, group: Any, leak: Leakage) -> Settings:
    """With the names of person and group that requirements are checked with."""
    table = measurement(leak).table
    names = confirmed_name(settings.person, person, table), confirmed_name(settings.group, group, table)
    return replace(settings, person=names[0], group=names[1])


def _check(X: Any, noise: Any, max_eta: float | None, policy: Policy | None) -> None:
    """Refuse what has no noise on parameters, before anything long is begun."""
    if hasattr(X, "about_inputs"):
        raise InvalidInputError(
            "audit needs the rows that the model was fitted on, and these are inputs of a network: "
            "fl.measure(model, X, y, noise).report(path) shows what is revealed about them."
        )
    if is_interface(noise) or is_self_shaped(noise):
        raise InvalidInputError(
            f"audit adds noise to parameters, and {type(noise).__name__} does not: print(fl.measure(model, X, y, "
            "noise).summary())."
        )
    if policy is not None and noise is None:
        raise InvalidInputError(
            "policy needs a noise to test: add noise=fl.Gaussian(scale). Noise that is chosen by the "
            "policy under test would always pass."
        )
    if max_eta is None:
        return
    check_positive(max_eta, "max_eta")
    if noise is None:
        raise InvalidInputError(
            "max_eta needs a noise to test: add noise=fl.Gaussian(scale). fl.calibrate(leak, eta=max_eta) gives the least "
            "that passes."
        )
    if has_own_shape(noise):
        raise InvalidInputError(
            "max_eta cannot be tested with noise whose covariance is data-dependent: etas of rows do not count what the "
            "covariance reveals. Use isotropic noise of a scale that you choose, fl.Gaussian(scale), or leave max_eta out."
        )


def _called(y: Any, columns: Sequence[str]) -> str:
    """The label's own name, where it has one that no column has."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name and name not in columns else LABEL


def _default_scale(leak: Leakage, worst: float | None, people: People | None) -> float:
    """The least at which no number of anyone is revealed by more than a tenth; without numbers, an eta of 1."""
    if worst is None:
        return rounded_up(float(MeasuredEtas.of(leak, people).eta.max()))
    return rounded_up(worst / exposure_at(TENTH))


def _noise(summary: Summary, given: Noise | None, worst: float | None, exposed: Exposures) -> AddedNoise:
    if given is not None:
        return replace(summary.noise, note="The scale was given.")
    note = (
        NOT_ASKED.format(except_for(summary.without_share), "anyone")
        if worst is not None
        else "No noise was given, so the scale is that at which the largest eta is 1."
    )
    return replace(summary.noise, chosen="default", note=f"{note} {EVEN}" if worst and exposed.yes_no else note)


def _with_attacks(summary: Summary, attacked: Attacked | None) -> Summary:
    if attacked is None:
        return summary
    apart = tuple(DistinguishableColumn(**vars(each)) for each in attacked.distinguishable)
    return replace(
        summary,
        attacks=outcomes_of(attacked),
        distinguishable=apart or summary.distinguishable,
        assumptions=(*summary.assumptions, *attacked.notes),
    )


def _checked_spread(spread: Any) -> Mapping[str, float]:
    """Spreads by name, each greater than zero."""
    return {str(name): check_positive(value, f"spread of '{name}'") for name, value in dict(spread or {}).items()}


def _cost(scored: Scored | None, leak: Leakage, seed: int) -> Tradeoff | None:
    return None if scored is None else utility_of(scored, leak.noise.scale * GRID, DRAWS, seed)


def _with_utility(summary: Summary, leak: Leakage, cost: Tradeoff | None, attacked: Attacked | None) -> Summary:
    """The summary with what noise costs."""
    if cost is None:
        unknown = NOT_SCORED.format(leak.fits[0].loss.name)
        return replace(summary, assumptions=(*summary.assumptions, unknown))
    held_out = cost.rows if cost.held_out else 0
    data = replace(summary.data, test_rows=held_out, rows_read=leak.n + held_out, rows_used=leak.n + held_out)
    curve = utility_curve(cost, Attacked(curves=((),) * len(cost.points)) if attacked is None else attacked)
    return replace(summary, data=data, tradeoff=curve)


def _with_advice(
    summary: Summary, leak: Leakage, worst: float | None, gain: float | None, around: tuple[str, str] | None
) -> Summary:
    """What may be chosen, and what to do next; nothing for a data-dependent covariance, whose etas do not go as 1 / scale."""
    if has_own_shape(leak.noise):
        return summary
    gate, scale, most = summary.gate, summary.noise.scale, summary.eta.examples.max
    advice = advice_on_rules(summary) or advice_from(
        Findings(
            scale=scale,
            asked=summary.noise.chosen != "default",
            worst=worst,
            enough=lambda limit: rounded_up(scale * most / limit),
            limited=gate is not None or summary.policy is not None,
            broken=gate.max_eta if gate and gate.exceeded else None,
            whose="row" if summary.data.people is None else "person",
            unknown=summary.without_share,
        )
    )
    command = None if around is None or advice.noise is None else f"{advice.noise:.15g}".join(around)
    choices = choices_with_cost(choices_at(scale, worst), summary.tradeoff, gain)
    return replace(summary, choices=choices, next=Next(advice.noise, advice.note, command, around))


def _call(model: Any, leak: Leakage, given: Noise | None, public: str) -> tuple[str, str] | None:
    """The call that releases this model, before and behind the scale of the noise; None for one that may not leave."""
    called = "model.best_estimator_" if hasattr(model, "best_estimator_") else "model"
    plain = given is None or given.record().keys() <= {"kind", "scale"}
    noise = f"fl.{type(leak.noise).__name__}(" if plain else "noise.rescaled("
    if is_fit(model):
        return f"fl.release({called}, {noise}", "))"
    own = getattr(model, "best_estimator_", model)
    try:
        check_releasable(own)
    except FisherleakError:
        return None
    rows = ", rows=(X, y)" if public == "nothing" and learned_levels(own) else ""
    return f"fl.release({called}, {noise}", f'), public="{public}"{rows})'
