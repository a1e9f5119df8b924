"""Refusals of fl.measure, fl.audit, fl.release, attacks and compositions, with what they advise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, RobustScaler, SplineTransformer, StandardScaler

import fisherleak as fl
from remedies.table import Remedy

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 3))
Y = X @ np.array([1.0, -0.5, 0.2]) + RNG.normal(size=60)
C = (Y > 0).astype(int)
K = np.digitize(Y, [-0.6, 0.6])
CODED = np.column_stack([X, RNG.integers(0, 3, 60)])
"""With a column of three values, which attackers guess."""
PAIRS = np.arange(60) // 2
PAIRED = CODED.copy()
PAIRED[1::2, 3] = PAIRED[::2, 3]
NOISE = fl.Gaussian(0.5)
RULE: dict[str, Any] = {"membership": {"max_right": 0.99}}


def measured(model: Any, X: Any = X, y: Any = Y, **options: Any) -> fl.Leakage:
    return fl.measure(model, X, y, options.pop("noise", NOISE), **options)


def fitted(*steps: Any, X: Any = X, y: Any = Y) -> Any:
    return (make_pipeline(*steps) if len(steps) > 1 else steps[0]).fit(X, y)


def searched(**options: Any) -> Any:
    return GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, cv=2, **options).fit(X, Y)


def attacked(kind: Any, X: Any = CODED, method: Any = None, **options: Any) -> Any:
    attack = kind(fitted(Ridge(1.0), X=X), X, Y, 3, **options)
    return attack if method is None else method(attack)


def gated(steps: Any = (), label: str = "y", public: str = "nothing", beyond: Any = None) -> fl.ModelAudit:
    """The policy on 400 normal rows: no standard deviation of theirs is next to an edge."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    y = pandas.Series(frame.a + rng.normal(size=400), name=label)
    policy = {"columns": {"a": {"min_error": 0.01}}, "require": {"public": public}}
    model = fitted(*steps, Ridge(1.0), X=frame, y=y)
    noise: Any = NOISE
    if beyond is not None:
        ends: Any = {name: (own.min() - beyond, own.max() + beyond) for name, own in frame.assign(label=y).items()}
        leak = fl.measure(model, frame, y, noise, public=public)
        noise = fl.calibrate(leak, 3.0, over="any-record", bounds=ends)
    return fl.audit(model, frame, y, noise=noise, policy=policy, public=public, attacks=False)


ENDS: dict[str, Any] = {"x0": (-5, 5), "x1": (-5, 5), "x2": (-5, 5), "label": (-8, 8)}
VALUES: dict[str, Any] = {"columns": {"x0": {"max_eta": 99.0}}, "require": {"public": "nothing"}}


def by_range(policy: Any, bounds: Any = None, noise: Any = None) -> fl.ModelAudit:
    """The policy with noise for any record, by default."""
    model = fitted(Ridge(1000.0))
    own = fl.calibrate(measured(model), 1.0, over="any-record", bounds=bounds) if noise is None else noise
    return fl.audit(model, X, Y, own, policy=policy, public="nothing", attacks=False)


def audited(model: Any = None, **options: Any) -> fl.ModelAudit:
    return fl.audit(RIDGE if model is None else model, X, Y, attacks=False, **{"public": "nothing"} | options)


RIDGE, LOGISTIC = fitted(Ridge(1.0)), fitted(LogisticRegression(), y=C)
WEIGHTS = RNG.uniform(0.5, 1.5, 60)
WEIGHTED = fl.minimise(X, Y, l2=0.1, sample_weight=WEIGHTS)
LEAK = measured(RIDGE)
OWN_SHAPE = fl.calibrate(LEAK, 1.0, shape="hessian")
FOLDED = fitted(StandardScaler(), Ridge(1.0))
FOLDED_NOISE = fl.calibrate(measured(FOLDED, public="nothing"), 1.0)


def folded(*steps: Any, **options: Any) -> Any:
    return measured(fitted(*steps, Ridge(1.0)), **{"public": "nothing"} | options)


MEASURED: list[Remedy] = [
    Remedy("is not fitted yet: call fit first", measured, {"model": Ridge()}, {"call fit first": {"model": RIDGE}}),
    Remedy(
        "has no best_estimator_: fit it with refit=True",
        lambda **options: measured(searched(**options)),
        {"refit": False},
        {"refit=True": None},
    ),
    Remedy(
        "sample_weight differs from the weights the model was fitted with. Pass the same.",
        measured,
        {"model": WEIGHTED, "sample_weight": np.ones(60)},
        {"Pass the same": {"sample_weight": WEIGHTS}},
    ),
    Remedy(
        "FunctionTransformer with a function of its own is not supported: its derivative is unknown.",
        measured,
        {"model": fitted(FunctionTransformer(lambda x: x**3), Ridge(1.0))},
        {"Apply the function to the table before": lambda: measured(fitted(Ridge(1.0), X=X**3), X**3)},
    ),
    Remedy(
        "ColumnTransformer with transformer_weights is not supported",
        measured,
        {
            "model": fitted(
                make_column_transformer((StandardScaler(), [0, 1, 2])).set_params(
                    transformer_weights={"standardscaler": 2.0}
                ),
                Ridge(1.0),
            )
        },
        {"scale them instead": lambda: measured(fitted(StandardScaler(), Ridge(1.0), X=2 * X), 2 * X)},
    ),
    Remedy(
        "(clip=True) cannot be folded into the model: use clip=False.",
        lambda **options: folded(MinMaxScaler(**options)),
        {"clip": True},
        {"clip=False": None},
    ),
    Remedy(
        "RobustScaler(unit_variance=True) cannot be folded into the model: leave unit_variance out.",
        lambda **options: folded(RobustScaler(**options)),
        {"unit_variance": True},
        {"leave unit_variance out": None},
    ),
    Remedy(
        "Centring cannot be folded into a model without a free intercept",
        lambda with_mean=True, **options: measured(
            fitted(StandardScaler(with_mean=with_mean), Ridge(1.0, **options)), public="nothing"
        ),
        {"fit_intercept": False},
        {"fit one": {"fit_intercept": True}, "do not centre the columns": {"with_mean": False}},
    ),
    Remedy(
        "learned from the data, and what it learned cannot be folded into the model: leave it out, use a scaler",
        lambda step, **options: folded(*step, **options),
        {"step": [PCA(2)]},
        {
            "leave it out": lambda: measured(RIDGE, public="nothing"),
            "use a scaler": {"step": [StandardScaler()]},
            "take preprocessing as public": {"public": "preprocessing"},
        },
    ),
    Remedy(
        "SplineTransformer(degree=0) is not supported",
        lambda degree: measured(fitted(SplineTransformer(degree=degree, n_knots=3), Ridge(1.0))),
        {"degree": 0},
        {"Use a degree of 1 or more": {"degree": 1}},
    ),
    Remedy(
        "attributes of a pipeline are the columns of its table; leave attributes out.",
        measured,
        {"model": FOLDED, "attributes": {"a": [0]}},
        {"leave attributes out": None},
    ),
    Remedy(
        "A Pipeline inside OneVsRestClassifier is not supported",
        measured,
        {"model": OneVsRestClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, K), "y": K},
        {
            "Put the steps before": {
                "model": make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression())).fit(X, K)
            }
        },
    ),
    Remedy(
        "compose takes leakages, one by one: compose(leak_a, leak_b)",
        lambda leaks: fl.compose(*leaks),
        {"leaks": [[LEAK, LEAK]]},
        {"compose(leak_a, leak_b)": {"leaks": [LEAK, LEAK]}},
    ),
    Remedy(
        "compose adds up noise whose covariance is public, and this one follows from the rows themselves",
        lambda shape: fl.compose(LEAK, LEAK.with_noise(fl.calibrate(LEAK, 1.0, shape=shape))),
        {"shape": "hessian"},
        {
            "shape='isotropic'": None,
            "a covariance from public rows": {"shape": measured(fitted(Ridge(1.0), X=-X), -X)},
        },
    ),
    Remedy(
        "noise must be None with of='label'",
        fl.queries_until,
        {"leakage": measured(LOGISTIC, y=C), "X_query": X[:4], "noise": NOISE, "eta": 1.0, "of": "label"},
        {"noise must be None": {"noise": None}},
    ),
    Remedy(
        "noise must be given with of=",
        fl.queries_until,
        {"leakage": LEAK, "X_query": X[:4], "noise": None, "eta": 1.0},
        {"noise must be given": {"noise": NOISE}},
    ),
]

AUDITED: list[Remedy] = [
    Remedy(
        "policy needs a noise to test: add noise=fl.Gaussian(scale).",
        audited,
        {"policy": RULE},
        {"add noise=fl.Gaussian(scale)": {"noise": fl.Gaussian(50.0)}},
    ),
    Remedy(
        "max_eta needs a noise to test: add noise=fl.Gaussian(scale)",
        audited,
        {"max_eta": 1.0},
        {
            "add noise=fl.Gaussian(scale)": {"noise": NOISE},
            "fl.calibrate(leak, eta=max_eta)": {"noise": fl.calibrate(LEAK, eta=1.0)},
        },
    ),
    Remedy(
        "audit adds noise to parameters, and",
        audited,
        {"noise": fl.Posterior(0.3)},
        {"fl.measure(model, X, y, noise).summary()": lambda: measured(RIDGE, noise=fl.Posterior(0.3)).summary()},
    ),
    Remedy(
        "max_eta cannot be tested with noise whose covariance is data-dependent",
        audited,
        {"noise": OWN_SHAPE, "max_eta": 1.0},
        {"fl.Gaussian(scale)": {"noise": NOISE}, "leave max_eta out": None},
    ),
    Remedy(
        "cannot be checked with weights (sample_weight)",
        audited,
        {"model": WEIGHTED, "sample_weight": WEIGHTS, "noise": NOISE, "policy": RULE},
        {
            "Fit without weights": lambda: audited(noise=fl.Gaussian(50.0), policy=RULE),
            "leave policy out": None,
        },
    ),
    Remedy(
        "cannot be checked: {why}, or leave these rules out.",
        by_range,
        {"policy": RULE},
        {
            "Calibrate it with bounds={'x0': (low, high)}": {"bounds": ENDS, "policy": VALUES},
            "leave these rules out": {"policy": {"utility": {"max_loss": 99.0}, "require": {"public": "nothing"}}},
        },
    ),
    Remedy(
        "cannot be checked: {why}, or leave these rules out.",
        by_range,
        {"policy": RULE, "bounds": ENDS},
        {
            "Use noise of a scale that you choose, fl.Gaussian(scale)": {"noise": NOISE},
            "leave these rules out": {"policy": VALUES},
        },
    ),
    Remedy(
        "cannot be checked with noise whose covariance is data-dependent",
        audited,
        {"noise": OWN_SHAPE, "policy": RULE},
        {"fl.Gaussian(scale)": {"noise": NOISE}},
    ),
    Remedy(
        "which the policy '{policy.source}' does not state: {why}.",
        audited,
        {"noise": fl.Gaussian(50.0), "policy": RULE, "public": "preprocessing"},
        {
            "public='nothing'": None,
            'public = "preprocessing" under [require] in the policy': {
                "policy": RULE | {"require": {"public": "preprocessing"}}
            },
        },
    ),
    Remedy(
        "X_test and y_test go together",
        audited,
        {"X_test": X[:20]},
        {"y_test is missing": {"y_test": Y[:20]}},
    ),
]

RELEASED: list[Remedy] = [
    Remedy(
        "You measured with public='nothing' but release with public='preprocessing'.",
        fl.release,
        {"model": FOLDED, "noise": FOLDED_NOISE, "public": "preprocessing"},
        {"public='nothing'": None},
    ),
    Remedy(
        "rows is for ObjectivePerturbation, and for scikit-learn models with public='nothing'",
        fl.release,
        {"model": RIDGE, "noise": NOISE, "rows": (X, Y), "public": "levels"},
        {"leave it out": lambda: fl.release(RIDGE, NOISE, public="levels")},
    ),
    Remedy(
        "is drawn from a fisherleak.Fit, which knows its Hessian",
        fl.release,
        {"model": RIDGE, "noise": fl.Posterior(0.3)},
        {
            "fit with fisherleak.minimise": {"model": fl.minimise(X, Y, l2=0.1)},
            "use noise on its parameters": {"noise": NOISE},
        },
    ),
    Remedy(
        "chose its parameters on the data, and that choice is not counted: pass its best_estimator_",
        fl.release,
        {"model": searched(), "noise": NOISE},
        {"pass its best_estimator_": {"model": searched().best_estimator_}},
    ),
    Remedy(
        "X has a column '{called}', and the label is called so too. Rename one of the two, and fit the model again.",
        gated,
        {"label": "a"},
        {"Rename one of the two, and fit the model again": {"label": "y"}},
    ),
    Remedy(
        "A release shows bounds, so it reveals that value. Declare bounds that are known without the table",
        gated,
        {"steps": (StandardScaler(),), "beyond": 0.0},
        {"Declare bounds that are known without the table": {"beyond": 1.0}},
    ),
    Remedy(
        "or scale of a scaler. That reveals the value however large the noise is. Leave '{name}' out of scalers",
        gated,
        {"steps": (MinMaxScaler(),)},
        {
            "Leave 'a' out of scalers": {
                "steps": (make_column_transformer((MinMaxScaler(), ["b"]), remainder="passthrough"),)
            },
            "let a StandardScaler take it directly from X": {"steps": (StandardScaler(),)},
            "give public='preprocessing'": {"steps": (MinMaxScaler(),), "public": "preprocessing"},
        },
    ),
]

ATTACKED: list[Remedy] = [
    Remedy(
        "guesses a value of one row: leave groups out, or use WhiteBox",
        attacked,
        {"kind": fl.attacks.BlackBox, "groups": PAIRS, "X": PAIRED},
        {"leave groups out": None, "use WhiteBox": {"kind": fl.attacks.WhiteBox}},
    ),
    Remedy(
        "rows and groups cannot both be given: leave rows out.",
        attacked,
        {"kind": fl.attacks.WhiteBox, "groups": PAIRS, "rows": [0, 1], "X": PAIRED},
        {"leave rows out": None},
    ),
    Remedy(
        "has several for {person}. Attack another column, or rows one by one, without groups=.",
        attacked,
        {"kind": fl.attacks.WhiteBox, "groups": PAIRS},
        {"without groups=": lambda: attacked(fl.attacks.WhiteBox)},
    ),
    Remedy(
        "The attacker with a prior must know the noise of the release: pass noise=fisherleak.Gaussian(scale).",
        attacked,
        {
            "kind": fl.attacks.WhiteBox,
            "use_prior": True,
            "method": lambda attack: attack.infer(fl.release(fitted(Ridge(1.0), X=CODED), NOISE)),
        },
        {
            "pass noise=fisherleak.Gaussian(scale)": {
                "method": lambda attack: attack.infer(fl.release(fitted(Ridge(1.0), X=CODED), NOISE), noise=NOISE)
            }
        },
    ),
]
