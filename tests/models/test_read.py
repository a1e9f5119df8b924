"""Five minutes of misuse: every error is one or two sentences that name the thing and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model as lm
from sklearn import preprocessing as pre
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline

import fisherleak as fl

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
N = 50
T = pd.DataFrame(
    {
        "age": RNG.normal(50, 10, N),
        "vkorc1": RNG.choice(["CC", "CT", "TT"], N),
        "height": RNG.normal(170, 9, N),
    }
)
Y = T["age"].to_numpy() * 0.1 + RNG.normal(size=N)
B = np.where(np.median(Y) < Y, "high", "low")
NUMBERS = ["age", "height"]
WEIGHTS = RNG.gamma(2.0, 1.0, N)


def encode(*more: Any) -> Any:
    return ColumnTransformer([("n", pre.StandardScaler(), NUMBERS), ("c", pre.OneHotEncoder(), ["vkorc1"]), *more])


def pipe(*steps: Any) -> Any:
    return make_pipeline(*steps, lm.Ridge())


MODEL = pipe(encode()).fit(T, Y)
LOGISTIC = make_pipeline(encode(), lm.LogisticRegression()).fit(T, B)
LEAK = fl.measure(MODEL, T, Y)
GAPS = T.copy()
GAPS.loc[[3, 9], "age"] = np.nan
HOLES = T.copy()
HOLES.loc[4, "vkorc1"] = None
UNSEEN = T.assign(vkorc1=np.where(np.arange(N) == 7, "AA", T["vkorc1"]))
NAMES = {
    "fl": fl, "np": np, "pd": pd, "lm": lm, "pre": pre, "T": T, "Y": Y, "B": B, "MODEL": MODEL, "LOGISTIC": LOGISTIC,
    "LEAK": LEAK, "GAPS": GAPS, "HOLES": HOLES, "UNSEEN": UNSEEN, "WEIGHTS": WEIGHTS, "NUMBERS": NUMBERS, "N": N,
    "pipe": pipe, "encode": encode, "sparse": sparse, "SimpleImputer": SimpleImputer, "KNNImputer": KNNImputer, "GridSearchCV": GridSearchCV,
    "FeatureUnion": FeatureUnion, "make_pipeline": make_pipeline, "ColumnTransformer": ColumnTransformer,
    "RandomForestClassifier": RandomForestClassifier,
}  # fmt: skip

CASES: list[tuple[str, str]] = [
    # names
    ("LEAK.per_example(['vkorc'])", "There is no attribute 'vkorc'. Did you mean 'vkorc1'?"),
    ("LEAK.per_example(['Age'])", "Did you mean 'age'?"),
    ("LEAK.by_group('vkorc')", "There is no column 'vkorc'. Did you mean 'vkorc1'?"),
    ("LEAK.by_group(['a', 'b'])", "one label for each of the 50 rows; got 2"),
    ("fl.measure(MODEL, T, Y, attributes=['a'])", "attributes of a pipeline are the columns of its table"),
    ("fl.IRFIL(lm.Ridge(), attributes=['hight']).fit(T[NUMBERS], Y)", "Did you mean 'height'?"),
    ("fl.PrivateRelease(lm.Ridge(), over='max', attributes=['hight']).fit(T[NUMBERS], Y)", "Did you mean 'height'?"),
    # labels and weights
    ("fl.measure(MODEL, T, Y[:-1])", "y must have one value for each of the 50 rows of X; got 49"),
    ("fl.measure(MODEL, T, 3.0)", "got none"),
    ("fl.measure(MODEL, T, np.where(np.arange(N) == 3, np.nan, Y))", "y must be finite; row 3 is nan"),
    ("fl.measure(MODEL, T, B)", "y must hold numbers for Ridge"),
    ("fl.measure(LOGISTIC, T, np.where(B == 'low', 'lo', B))", "none of the model's classes ['high', 'low']"),
    ("fl.measure(LOGISTIC, T, B[:, None])", "y must have one dimension; got shape (50, 1). Use y.ravel()"),
    ("fl.measure(LOGISTIC, T, B == 'low')", "none of the model's classes"),
    ("fl.measure(MODEL, T, Y[::-1])", "Ridge is not at the minimum of its objective"),
    ("fl.measure(MODEL, T, Y, sample_weight=WEIGHTS)", "Pass the rows, labels and weights it was fitted with"),
    ("fl.measure(pipe().fit(T[NUMBERS], Y, ridge__sample_weight=WEIGHTS), T[NUMBERS], Y)", "not at the minimum"),
    ("fl.measure(MODEL, T, Y, sample_weight=-WEIGHTS)", "sample_weight must be finite and zero or more; row 0"),
    ("fl.measure(MODEL, T, Y, sample_weight=WEIGHTS[:9])", "sample_weight must have one value for each of the 50 rows"),
    ("fl.measure(MODEL, T, Y, noise=0.1)", "noise must be a noise such as fisherleak.Gaussian(0.1)"),
    # models
    ("fl.measure(pipe(encode()), T, Y)", "Pipeline is not fitted yet: call fit first"),
    ("fl.measure(lm.Ridge(), T[NUMBERS], Y)", "Ridge is not fitted yet"),
    ("fl.measure(lm.Ridge, T, Y)", "model must be a fisherleak.Fit or a fitted scikit-learn model; got"),
    ("fl.measure(None, T, Y)", "got NoneType"),
    ("fl.measure(RandomForestClassifier(3).fit(T[NUMBERS], B), T[NUMBERS], B)", "RandomForestClassifier is not supported"),
    ("fl.measure(GridSearchCV(lm.Ridge(), {'alpha': [1]}, refit=False).fit(T[NUMBERS], Y), T[NUMBERS], Y)", "refit=True"),
    ("fl.measure(make_pipeline(pipe().fit(T[NUMBERS], Y)), T[NUMBERS], Y)", "as the last step of a Pipeline"),
    # columns
    ("fl.measure(MODEL, T[['age', 'height']], Y)", "X lacks column 'vkorc1'. Pass the table that Pipeline was fitted on"),
    ("fl.measure(MODEL, T.assign(extra=1), Y)", "X has column 'extra', which the model has not seen"),
    ("fl.measure(MODEL, T[['height', 'age', 'vkorc1']], Y)", "another order"),
    ("fl.measure(pipe().fit(T[NUMBERS], Y), T[NUMBERS].to_numpy()[:, :1], Y)", "was fitted on 2 columns; X has 1"),
    ("fl.measure(MODEL, pd.concat([T, T['age']], axis=1), Y)", "the column 'age' more than once"),
    ("fl.measure(pipe().fit(T[NUMBERS], Y), T['age'], Y)", "X must have two dimensions"),
    ("fl.measure(pipe().fit(T[NUMBERS], Y), sparse.csr_array(T[NUMBERS].to_numpy()), Y)", "X is a sparse csr_array"),
    ("fl.measure(pipe().fit(T[NUMBERS], Y), np.full((N, 2), 'a'), Y)", "not numeric"),
    ("fl.measure(MODEL, T.to_numpy(), Y)", "chooses the column 'age' by name, and X has no such column"),
    ("fl.measure(fl.IRFIL(lm.Ridge(), n_iter=1).fit(T[NUMBERS], Y), T[NUMBERS], Y)", "pass its estimator_, with sample_weight"),
    ("fl.release(fl.IRFIL(lm.Ridge(), n_iter=1).fit(T[NUMBERS], Y), fl.Gaussian(1.0))", "IRFIL is not supported: pass its estimator_"),
    ("fl.release(RandomForestClassifier(3).fit(T[NUMBERS], B), fl.Gaussian(1.0))", "RandomForestClassifier is not supported"),
    ("fl.release(MODEL, fl.Gaussian(1.0, np.eye(2)))", "shape must cover the 6 released parameters; got 2"),
    ("fl.PrivateRelease(lm.Ridge(), over='group').fit(T[NUMBERS], Y)", "over must be one of any-record, max, mean, dataset; got 'group'"),
    ("fl.PrivateRelease(lm.Ridge(), over='dataset', attributes=['age']).fit(T[NUMBERS], Y)", "cannot be given with over='dataset'"),
    ("fl.IRFIL(lm.Ridge()).fit(T[NUMBERS], Y, sample_weight=-WEIGHTS)", "sample_weight must be finite and zero or more"),
    # values
    ("fl.measure(MODEL, GAPS, Y)", "X must be finite; row 3, column 'age' is nan (2 such values in all)"),
    ("fl.measure(pipe(KNNImputer()).fit(GAPS[NUMBERS], Y), GAPS[NUMBERS], Y)", "filled 2 missing values of column 'age' (first in row 3)"),
    (
        "fl.measure(pipe(SimpleImputer(strategy='most_frequent', add_indicator=True)).fit(GAPS[NUMBERS], Y), GAPS[NUMBERS], Y)",
        "filled 2 missing values",
    ),
    ("fl.measure(MODEL, UNSEEN, Y)", "a column of it holds values that this step does not take"),
    ("fl.measure(pipe(ColumnTransformer([('c', pre.TargetEncoder(), ['vkorc1'])])).fit(T, Y), T, Y)", "TargetEncoder is not supported"),
    ("fl.measure(pipe(pre.QuantileTransformer(n_quantiles=20)).fit(T[NUMBERS], Y), T[NUMBERS], Y)", "QuantileTransformer is not supported"),
    ("fl.measure(pipe(pre.FunctionTransformer(np.log)).fit(T[NUMBERS], Y), T[NUMBERS], Y)", "with a function of its own"),
    (
        "fl.measure(pipe(ColumnTransformer([('n', 'passthrough', NUMBERS)], transformer_weights={'n': 2})).fit(T, Y), T, Y)",
        "transformer_weights is not supported",
    ),
    ("fl.measure(pipe(pre.StandardScaler(), pre.OneHotEncoder()).fit(T[NUMBERS], Y), T[NUMBERS], Y)", "encode the raw column itself"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "message"), CASES, ids=[row[0] for row in CASES])
def test_one_clear_sentence(expression: str, message: str) -> None:
    with pytest.raises(fl.InvalidInputError) as caught:
        eval(expression, dict(NAMES))  # noqa: S307 - the expressions stand above
    text = str(caught.value)
    assert message in text
    assert "\n" not in text
    assert len(text) < 400


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 40


def test_small_integers_do_not_overflow() -> None:
    X = RNG.integers(0, 120, size=(N, 2))
    wide = lm.Ridge().fit(X.astype(float), Y)
    expected = fl.measure(wide, X.astype(float), Y).per_cell()
    for dtype in (np.int8, np.uint8, np.int16, np.float32):
        model = lm.Ridge().fit(X.astype(dtype), Y) if dtype != np.float32 else wide
        np.testing.assert_allclose(fl.measure(model, X.astype(dtype), Y).per_cell(), expected, rtol=1e-6)
    bent = make_pipeline(pre.PolynomialFeatures(3), lm.Ridge(alpha=1e6))
    small, large = (
        fl.measure(bent.fit(X.astype(t), Y), X.astype(t), Y, polish=True).per_cell() for t in (np.int64, float)
    )
    np.testing.assert_allclose(small, large, rtol=1e-6)


def test_missing_levels_are_levels() -> None:
    """An encoder that knows "missing" as a level treats it as any other."""
    model = pipe(encode()).fit(HOLES, Y)
    assert np.isfinite(fl.measure(model, HOLES, Y).per_cell()).all()
