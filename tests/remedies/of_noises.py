"""Refusals of noises, mechanisms, answers, compositions and attackers, with what they advise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler

import fisherleak as fl
from fisherleak.engine.losses import LOSSES, OF_SEVERAL
from remedies.of_models import (
    CODED,
    LEAK,
    LOGISTIC,
    NOISE,
    PAIRED,
    PAIRS,
    RIDGE,
    WEIGHTS,
    C,
    K,
    X,
    Y,
    attacked,
    fitted,
    measured,
)
from remedies.table import Remedy

G = fl.Gaussian(1.0)
POSTERIOR: Any = fl.Posterior(0.3)
Q = X[:4]
PAIRED_FIT = fl.minimise(PAIRED, Y, l2=0.1)
COUNTS = np.random.default_rng(2).poisson(2.0, 60)
TWO = np.column_stack([Y, -Y + X[:, 0]])
SOFTMAX: dict[str, Any] = {"y": K, "loss": "softmax"}
SIGNED = np.sign(TWO)
STEPS = make_pipeline(StandardScaler(), Ridge(1.0)).fit(CODED, Y)
MANY = LogisticRegression(tol=1e-10).fit(X, K)
FOLDED = make_pipeline(StandardScaler(), Ridge(1.0)).fit(X, Y)
OWN = fl.calibrate(LEAK, 1.0, shape="hessian")


def fit(y: Any = Y, loss: Any = "squared", X: Any = X, l2: float = 0.1, **options: Any) -> fl.Fit:
    return fl.minimise(X, y, loss, l2, **options)


def leak(
    noise: Any = NOISE, y: Any = Y, loss: Any = "squared", X: Any = X, public: Any = None, **options: Any
) -> fl.Leakage:
    return fl.measure(fit(y, loss, X, **options), X, y, noise)


def eta(noise: Any = NOISE, **options: Any) -> Any:
    """Etas of a release: some refusals come where they are asked for."""
    return leak(noise, **options).per_example()


def membership(noise: Any = NOISE, model: Any = None, y: Any = Y, **options: Any) -> Any:
    return measured(RIDGE if model is None else model, y=y, noise=noise, **options).membership()


def squared_of_several(c: Any) -> fl.Loss:
    """Half the squared error of several numbers as a record from outside."""
    own = OF_SEVERAL["squared"]
    return fl.Loss("own", own.value, own.r, lambda z, y: own.a(z, y), c, own.labels, quadratic=True, frame=np.eye)


def of_own_loss(quadratic: bool) -> Any:
    """Of a copy of the logistic loss."""
    own = LOSSES["logistic"]
    return eta(y=C, loss=fl.Loss("own", own.value, own.r, own.a, own.c, own.labels, own.start, quadratic))


def composed(first: Any = LEAK, second: Any = LEAK) -> Any:
    return fl.compose(first, second).per_example()


def calibrated(noise: Any = NOISE, eta: float = 1.0, own: Any = None, **options: Any) -> Any:
    return fl.calibrate(leak(noise) if own is None else own, eta, **options)


def of_label(X_query: Any = Q, noise: Any = None, of: str = "label", y: Any = C, loss: Any = "logistic") -> Any:
    by = fl.SampledLabels(X_query) if of == "label" else fl.Answers(X_query, noise, of=of)
    return eta(by, y=y, loss=loss)


def members(noise: Any = NOISE, model: Any = None, y: Any = Y, **options: Any) -> Any:
    return fl.attacks.Membership(RIDGE if model is None else model, X, y, **options).accuracy(noise)


def guessed(
    kind: Any = fl.attacks.WhiteBox, model: Any = None, y: Any = Y, at: Any = 3, X: Any = CODED, **options: Any
) -> Any:
    return kind(fitted(Ridge(1.0), X=X, y=y) if model is None else model, X, y, at, **options).accuracy(NOISE)


def shown(own: fl.Leakage) -> Any:
    with TemporaryDirectory() as folder:
        own.report(path := Path(folder) / "report.html")
        return path.read_text(encoding="utf-8")


def reweighted(estimator: Any = None, **options: Any) -> Any:
    rows, y = options.pop("X", X), options.pop("y", Y)
    groups = options.pop("groups", None)
    return fl.IRFIL(estimator or Ridge(1.0), **{"n_iter": 3} | options).fit(rows, y, groups=groups)


OF_NOISES: list[Remedy] = [
    Remedy(
        "of='probability' is for the logistic loss, and this model's is {loss.name}: use of='score'.",
        of_label,
        {"of": "probability", "noise": G, "y": COUNTS, "loss": "poisson"},
        {"of='score'": None},
    ),
    Remedy(
        "SampledLabels has no noise whose scale could be changed: answer fewer queries (fisherleak.queries_until)",
        lambda by: fl.calibrate(leak(by, y=C, loss="logistic"), eta=0.5),
        {"by": fl.SampledLabels(Q)},
        {
            "answer fewer queries (fisherleak.queries_until)": lambda: fl.queries_until(
                leak(y=C, loss="logistic"), Q, None, eta=0.5, of="label"
            ),
            "answer with noise (fisherleak.Answers)": {"by": fl.Answers(Q, G)},
        },
    ),
    Remedy(
        "whose labels have a distribution; this model's loss is {loss.name}: use fisherleak.Answers with noise.",
        of_label,
        {"y": Y, "loss": "squared"},
        {"use fisherleak.Answers with noise": {"of": "score", "noise": G}},
    ),
    Remedy(
        "SampledLabels of counts needs queries with scores between",
        of_label,
        {"X_query": 1e4 * Q, "y": COUNTS, "loss": "poisson"},
        {"Drop such queries": {"X_query": Q}, "use fisherleak.Answers with noise": {"of": "score", "noise": G}},
    ),
    Remedy(
        "of X_query has a value beyond {LARGEST_QUERY * min(scale, 1.0)} behind the preprocessing: drop it.",
        of_label,
        {"X_query": 1e200 * Q, "of": "score", "noise": G},
        {"drop it": {"X_query": Q}},
    ),
    Remedy(
        "needs the softmax loss, which gives probabilities of classes",
        of_label,
        {"y": TWO, "loss": "squared"},
        {"use fisherleak.Answers with of='score'": {"of": "score", "noise": G}},
    ),
    Remedy(
        "ObjectivePerturbation is known for the losses squared",
        eta,
        {"noise": fl.ObjectivePerturbation(0.1), "loss": "pseudo_huber"},
        {"use noise on its parameters, fisherleak.Gaussian": {"noise": G}},
    ),
    Remedy(
        "the intercept has no penalty, and a larger perturbation of it leaves no minimum.",
        eta,
        {"noise": fl.ObjectivePerturbation(100.0), "y": C, "loss": "logistic", "intercept": True},
        {
            "Use a smaller scale": {"noise": fl.ObjectivePerturbation(0.01)},
            "fit without an intercept": {"intercept": False},
        },
    ),
    Remedy(
        "{name} is measured exactly for the squared loss only, and this model's is",
        eta,
        {"noise": fl.Posterior(1.0), "y": C, "loss": "logistic"},
        {"use noise on its parameters, fisherleak.Gaussian": {"noise": G}},
    ),
    Remedy(
        "loss solves a perturbed problem on the rows: pass rows=(X, y), those that the model was fitted on.",
        lambda **options: fl.release(fit(C, "logistic"), fl.ObjectivePerturbation(0.01), **options),
        {},
        {"pass rows=(X, y)": {"rows": (X, C)}},
    ),
    Remedy(
        "is too small beside a parameter of {noisy[coarse[0]]}: rounding to 53 bits",
        lambda scale, Y=Y: fl.release(fit(Y), fl.Gaussian(scale)),
        {"scale": 1e-30},
        {"Use more noise": {"scale": 1.0}},
    ),
    Remedy(
        "describes answers to queries: pass it to fisherleak.measure.",
        lambda noise: fl.release(RIDGE, noise),
        {"noise": fl.SampledLabels(Q)},
        {"such as fisherleak.Gaussian(0.1)": {"noise": fl.Gaussian(0.1)}},
    ),
    Remedy(
        "shape is nearly singular: with variances of one its condition number is",
        lambda shape: fl.Gaussian(1.0, shape),
        {"shape": np.array([[1.0, 1 - 1e-15], [1 - 1e-15, 1.0]])},
        {"Give every direction more noise": {"shape": np.array([[1.1, 1.0], [1.0, 1.1]])}}
        | {"leave out columns that nearly repeat others": {"shape": np.eye(1)}},
    ),
    Remedy(
        "draws is {tilted.draws}, with {p} x {p} Hessians each: use at most",
        eta,
        {"noise": fl.ObjectivePerturbation(0.1, draws=2_000_000_000), "y": C, "loss": "logistic"},
        {"use at most": {"noise": fl.ObjectivePerturbation(0.1, draws=200)}, "fisherleak.Gaussian": {"noise": G}},
    ),
    Remedy(
        "is known for models of one output, and for several with the package's squared loss; this one",
        eta,
        {"noise": fl.ObjectivePerturbation(0.01)} | SOFTMAX,
        {"use noise on its parameters, fisherleak.Gaussian": {"noise": G}},
    ),
    Remedy(
        "is drawn for models of one output, and for several with the package's squared loss; this one has",
        lambda noise: fl.release(fit(K, "softmax"), noise),
        {"noise": fl.Posterior(0.3)},
        {"use noise on the parameters, fisherleak.Gaussian": {"noise": G}},
    ),
    Remedy(
        "has several outputs, and the derivative of its gradient by the label is not its c",
        lambda c, y=TWO, own=None: eta(y=y, loss=squared_of_several(c) if own is None else own),
        {"c": lambda z, y: np.eye(2)[None]},
        {
            "correct c": {"c": lambda z, y: -np.eye(2)[None]},
            "fit each output by itself": {"y": TWO[:, 0], "own": "squared"},
        },
    ),
    Remedy(
        "needs a and c that are the same for all predictors and labels",
        of_own_loss,
        {"quadratic": True},
        {"leave quadratic out": {"quadratic": False}},
    ),
    Remedy(
        "membership has a closed form for noise whose covariance does not depend on the data, and that of",
        lambda noise: leak(noise, y=C, loss="logistic").membership(),
        {"noise": fl.ObjectivePerturbation(0.01)},
        {"fisherleak.Gaussian": {"noise": G}},
    ),
    Remedy(
        "{name} releases parameters, and this leakage is of a gradient: use fisherleak.Gaussian.",
        lambda noise: fl.gradients(fit(), X, Y, G).with_noise(noise),
        {"noise": fl.Posterior(0.3)},
        {"fisherleak.Gaussian": {"noise": G}},
    ),
    Remedy(
        "noise must be normal for membership: the best test has a closed form for such noise only",
        membership,
        {"noise": fl.Laplace(0.5)},
        {"Use fisherleak.Gaussian": {"noise": G}},
    ),
    Remedy(
        "Membership needs the scale of each column after a row is removed, which is known for standard",
        lambda step, **options: membership(
            model=make_pipeline(step, Ridge(1.0)).fit(X, Y), **{"public": "nothing"} | options
        ),
        {"step": MinMaxScaler()},
        {"use StandardScaler": {"step": StandardScaler()}, "public='preprocessing'": None},
    ),
    Remedy(
        "the only preprocessing that membership() counts is standard deviations of scalers before a softmax model",
        lambda **options: membership(
            model=make_pipeline(StandardScaler(), Ridge(1.0)).fit(X, TWO), y=TWO, **{"public": "nothing"} | options
        ),
        {},
        {"public='preprocessing'": None},
    ),
    Remedy(
        "is not composed with other releases: compose models of one output, or use noise on the parameters",
        composed,
        {"first": leak(fl.Posterior(0.3), y=TWO), "second": leak(y=TWO)},
        {"compose models of one output": {"first": leak(), "second": leak()}}
        | {"fisherleak.Gaussian": {"first": leak(G, y=TWO)}},
    ),
    Remedy(
        "Gradients are measured for models of one output, and this one has several: fit one class against the rest.",
        lambda y, loss: fl.gradients(fit(y, loss), X, y, G),
        SOFTMAX,
        {"fit one class against the rest": {"y": (K == 0) * 1, "loss": "logistic"}},
    ),
    Remedy(
        "noise must be known to be independent between answers: use Gaussian without `shape`, Laplace or Bounded.",
        lambda noise: fl.queries_until(LEAK, Q, noise, eta=1.0),
        {"noise": fl.Gaussian(1.0, np.eye(4) + 0.1)},
        {"Gaussian without `shape`": {"noise": G}, "Laplace": {"noise": fl.Laplace(1.0)}}
        | {"or Bounded": {"noise": fl.Bounded(1.0)}},
    ),
    Remedy(
        "however much noise there is: that is what its covariance, which depends on the data, reveals by itself.",
        calibrated,
        {"noise": fl.Posterior(0.3), "eta": 1e-3},
        {"Use fisherleak.Gaussian": {"noise": G}, "a larger limit": {"eta": 10.0}},
    ),
    Remedy(
        "shape= and over='any-record' are for noise on parameters, and this leakage is of",
        calibrated,
        {"noise": fl.Answers(Q, G), "shape": "hessian"},
        {"leave them out": lambda: calibrated(fl.Answers(Q, G)), "start from a leakage of a release": {"noise": G}},
    ),
    Remedy(
        "shape= and over='any-record' are for noise that does not depend on the data, and",
        calibrated,
        {"noise": fl.Posterior(0.3), "shape": "hessian", "eta": 10.0},
        {"leave them out": lambda: calibrated(fl.Posterior(0.3), 10.0)},
    ),
    Remedy(
        "shape must be a matrix or 'isotropic' for an attack: pass that of a calibrated noise.",
        lambda shape: fl.calibrate(attacked(fl.attacks.WhiteBox), accuracy=0.9, shape=shape),
        {"shape": "hessian"},
        {
            "pass that of a calibrated noise": {
                "shape": vars(fl.calibrate(measured(fitted(Ridge(1.0), X=CODED), CODED), 1.0, shape="hessian"))["shape"]
            }
        },
    ),
    Remedy(
        "`rows_per_person` is {most}, and {above} {have} more rows",
        lambda rows_per_person, keep=slice(None): fl.calibrate(
            measured(Ridge(1000.0).fit(X[keep], Y[keep]), X[keep], Y[keep], person=np.minimum(PAIRS, 28)[keep]),
            1.0,
            over="any-record",
            rows_per_person=rows_per_person,
            bounds={f"x{j}": (-4.0, 4.0) for j in range(3)} | {"label": (-8.0, 8.0)},
        ),
        {"rows_per_person": 2},
        {"raise `rows_per_person` to that": {"rows_per_person": 4}, "leave rows of theirs out": {"keep": slice(0, 58)}},
    ),
    Remedy(
        "counted is for preprocessing that is public and affine; here it is folded into the model",
        lambda **options: fl.counted(measured(FOLDED, **{"public": "nothing"} | options), 1.0, shape="hessian"),
        {},
        {"Measure with public='preprocessing'": {"public": "preprocessing"}},
    ),
    Remedy(
        "Informed takes no prior, because it learns one for each row: leave prior out.",
        guessed,
        {"kind": fl.attacks.Informed, "prior": np.full((60, 3), 1 / 3)},
        {
            "leave prior out": None,
            "use WhiteBox(..., prior=P, use_prior=True)": {"kind": fl.attacks.WhiteBox, "use_prior": True},
        },
    ),
    Remedy(
        "released is no release of this model:",
        lambda released: attacked(fl.attacks.WhiteBox, method=lambda attack: attack.infer(released)),
        {"released": fl.release(LOGISTIC, NOISE)},
        {"Pass the model that release returned": {"released": fl.release(fitted(Ridge(1.0), X=CODED), NOISE)}},
    ),
    Remedy(
        "released has its scalers folded into its coefficients, and this attacker takes scales and centres as public",
        lambda public="nothing": fl.attacks.WhiteBox(STEPS, CODED, Y, 3).infer(fl.release(STEPS, NOISE, public=public)),
        {},
        {
            "Attack a release with public='preprocessing'": {"public": "preprocessing"},
            "measure this release with public='nothing'": lambda: measured(STEPS, CODED, public="nothing"),
        },
    ),
    Remedy(
        "The label of a model with class_weight cannot be attacked: another label has another weight.",
        lambda model, **options: fl.attacks.WhiteBox(model, X, C, "label", **options),
        {"model": LogisticRegression(class_weight={0: 1.0, 1: 2.0}, tol=1e-10).fit(X, C)},
        {
            "Fit it with sample_weight instead": {
                "model": LogisticRegression(tol=1e-10).fit(X, C, WEIGHTS),
                "sample_weight": WEIGHTS,
            }
        },
    ),
    Remedy(
        "outputs: name the one under attack, attribute=('{LABEL}', 0)",
        lambda at: fl.attacks.WhiteBox(fitted(Ridge(1.0), y=SIGNED), X, SIGNED, at, values=[-1.0, 1.0]),
        {"at": "label"},
        {"attribute=('label', 0)": {"at": ("label", 0)}},
    ),
    Remedy(
        "values must cover every attacked row: row",
        lambda **options: fl.attacks.WhiteBox(MANY, X, K, "label", **options),
        {"values": [0, 1]},
        {"Add the value": {"values": [0, 1, 2]}, "leave the row out with rows=": {"rows": np.flatnonzero(K < 2)}},
    ),
    Remedy(
        "step is for rounding scores and probabilities, and here labels are served; got {step}. Leave it out.",
        lambda **options: fl.attacks.Served(
            fitted(LogisticRegression(tol=1e-10), X=CODED, y=C), CODED, C, 3, answer="label", **options
        ),
        {"step": 0.1},
        {
            "Leave it out": lambda: fl.attacks.Served(
                fitted(LogisticRegression(tol=1e-10), X=CODED, y=C), CODED, C, 3, answer="label"
            )
        },
    ),
    Remedy(
        "Membership under such noise is attacked for models of one output only: use shape='isotropic'.",
        lambda y=K, shape="hessian": members(fl.calibrate(measured(MANY, y=K), 1.0, shape=shape), MANY, K),
        {},
        {"shape='isotropic'": None},
    ),
    Remedy(
        "is known when one row is removed, not when several are: attack rows one by one, without groups=.",
        lambda **options: fl.attacks.Membership(fit(), X, Y, **options).simulate(POSTERIOR),
        {"groups": PAIRS},
        {"without groups=": lambda: fl.attacks.Membership(fit(), X, Y).simulate(POSTERIOR)},
    ),
    Remedy(
        "is known when one row changes, not when several do: attack rows one by one, without groups=.",
        lambda **options: fl.attacks.WhiteBox(PAIRED_FIT, PAIRED, Y, 3, **options).accuracy(POSTERIOR),
        {"groups": PAIRS},
        {"without groups=": lambda: fl.attacks.WhiteBox(PAIRED_FIT, PAIRED, Y, 3).accuracy(POSTERIOR)},
    ),
    Remedy(
        "is not known if the penalty shrinks when a row is removed",
        lambda: fl.attacks.Membership(replace(fit(), per_row=True), X, Y).simulate(POSTERIOR),
        {},
        {"use accuracy(noise)": lambda: fl.attacks.Membership(replace(fit(), per_row=True), X, Y).accuracy(POSTERIOR)},
    ),
    Remedy(
        "{name} and groups cannot both be given: leave {name} out.",
        members,
        {"groups": PAIRS, "rows": [0, 1]},
        {"leave rows out": None},
    ),
    Remedy(
        "A limit on accuracy needs a closed form, and {type(noise).__name__} has none: limit eta, or use",
        lambda noise: attacked(fl.attacks.WhiteBox).certain_accuracy(noise),
        {"noise": fl.Posterior(1.0)},
        {"use fisherleak.Gaussian": {"noise": G}},
    ),
    Remedy(
        "A model of {fit.coef.shape[0]} {'classes' if fit.loss.classes else 'outputs'}",
        lambda y, loss: fl.counted(leak(y=y, loss=loss), 1.0),
        SOFTMAX,
        {"one class against the rest": {"y": (K == 0) * 1, "loss": "logistic"}},
    ),
    Remedy(
        "A composition has no single noise to show: write the report of each of its releases.",
        lambda own: shown(own),
        {"own": fl.compose(LEAK, LEAK)},
        {"write the report of each of its releases": {"own": LEAK}},
    ),
    Remedy(
        "groups are for weighting='group' or 'hybrid'; leave them out.",
        reweighted,
        {"groups": PAIRS % 3},
        {"weighting='group'": None, "leave them out": {"groups": None}},
    ),
    Remedy(
        "needs groups: fit(X, y, groups=...).",
        reweighted,
        {"weighting": "group"},
        {"groups=...": {"groups": PAIRS % 3}},
    ),
    Remedy(
        "account='end-to-end' follows n_iter plain reweightings: use weighting='example' without accelerate",
        reweighted,
        {"account": "end-to-end", "accelerate": True},
        {"without accelerate": lambda: reweighted(account="end-to-end")},
    ),
    Remedy(
        "account='end-to-end' needs NumPy rows behind affine preprocessing: use account='weights-fixed'.",
        lambda **options: reweighted(make_pipeline(PolynomialFeatures(2, include_bias=False), Ridge(1.0)), **options),
        {"account": "end-to-end"},
        {"account='weights-fixed'": None},
    ),
    Remedy(
        "IRFIL with class_weight='balanced' is not supported: it undoes the weights of whole classes.",
        lambda **options: reweighted(LogisticRegression(tol=1e-10, **options), y=C),
        {"class_weight": "balanced"},
        {"Pass class_weight as a dict": {"class_weight": {0: 1.0, 1: 2.0}}, "leave it out": {"class_weight": None}},
    ),
]
