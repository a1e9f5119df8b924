"""The page of a model that was measured from Python: its numbers are the leakage's, for every kind of model that is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl
from fisherleak._support.numbers import number
from report.records import summary_of_leakage

pandas = pytest.importorskip("pandas")


def people(n: int = 80) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    table = pandas.DataFrame(
        {"age": rng.normal(50, 12, n), "weight": rng.normal(70, 9, n), "city": rng.choice(["A", "B", "C"], n)}
    )
    return table.set_index(np.array([f"P{k}" for k in range(n)])), 0.1 * table["age"].to_numpy() + rng.normal(size=n)


def pipeline(last: Any) -> Any:
    columns = make_column_transformer((StandardScaler(), ["age", "weight"]), (OneHotEncoder(drop="first"), ["city"]))
    return make_pipeline(columns, last)


@pytest.fixture(scope="module")
def leak() -> fl.Leakage:
    table, y = people()
    return fl.measure(pipeline(Ridge()).fit(table, y), table, y, fl.Gaussian(0.3))


def test_numbers_are_those_of_the_leakage(leak: fl.Leakage) -> None:
    table, _ = people()
    made = summary_of_leakage(leak, groups=table["city"].to_numpy(), max_eta=float(np.median(leak.per_example())))
    eta = leak.per_example()
    worst = int(eta.argmax())
    assert (made["rows"][0]["row"], made["rows"][0]["id"]) == (worst, f"P{worst}")
    assert made["eta"]["examples"]["max"] == pytest.approx(eta.max())
    assert made["eta"]["dataset"] == pytest.approx(leak.dataset())
    age = next(a for a in made["attributes"] if a["name"] == "age")
    shares = leak.revealed("age")[:, 0]
    assert age["revealed"]["max"] == pytest.approx(shares.max())
    assert age["revealed"]["row"] == int(shares.argmax())
    assert age["eta_column"] == pytest.approx(leak.per_attribute()[0])
    assert next(a for a in made["attributes"] if a["name"] == "city")["revealed"] is None
    assert made["gate"]["count"] == 40
    assert {g["name"]: g["count"] for g in made["groups"]} == table["city"].value_counts().to_dict()
    assert made["groups"][0]["eta_joint"] == pytest.approx(leak.by_group("city")[made["groups"][0]["name"]])
    assert made["membership"]["accuracy_max"] == pytest.approx(norm.cdf(leak.membership().max() / 2), rel=1e-3)
    assert sum(sum(g["counts"]) for g in made["eta"]["histogram"]["groups"]) == 80


def test_shares_are_a_method_too(leak: fl.Leakage) -> None:
    table, _ = people()
    share = leak.revealed()
    assert share.shape == (80, 3)
    assert np.isnan(share[:, 2]).all()
    own = {"age": table["age"].std(ddof=0)}
    np.testing.assert_allclose(share[:, 0], leak.revealed("age", spread=own)[:, 0])
    twice = leak.with_noise(fl.Gaussian(0.6)).revealed("age")[:, 0]  # exposures go as 1 / sigma
    np.testing.assert_allclose(twice / (1 - twice), share[:, 0] / (1 - share[:, 0]) / 4)
    with pytest.raises(fl.InvalidInputError, match="spread names 'height'"):
        leak.revealed(spread={"height": 1.0})
    with pytest.raises(fl.InvalidInputError, match="encoded by"):
        leak.revealed(spread={"city": 1.0})


@pytest.fixture(scope="module")
def smokers() -> tuple[Any, Any, fl.Leakage]:
    table, y = people()
    table["smokes"] = (np.arange(80) % 4 == 0).astype(int)
    table["ill"] = np.arange(80) % 7 == 0
    model = make_pipeline(StandardScaler(), Ridge(0.1)).fit(table.drop(columns="city"), y)
    return table, y, fl.measure(model, table.drop(columns="city"), y, fl.Gaussian(0.02))


def test_yes_and_no_have_no_share(smokers: tuple[Any, Any, fl.Leakage]) -> None:
    _, _, leak = smokers
    assert np.isnan(leak.revealed(["smokes", "ill"])).all()
    assert np.isfinite(leak.revealed(["age", "weight"])).all()
    made = summary_of_leakage(leak)
    found = {a["name"]: a for a in made["attributes"]}
    for name in ("smokes", "ill"):
        assert found[name]["kind"] == "category"
        assert found[name]["yes_no"]
        assert found[name]["revealed"] is None
    assert "yes_no" not in found["age"]
    both = np.column_stack([leak.revealed(["age", "weight"]), _label_share(leak, smokers[1])])
    assert made["people"]["count"] == (both > 0.5).any(axis=1).sum() > 0


def test_a_spread_that_is_given_makes_a_number_of_yes_and_no(smokers: tuple[Any, Any, fl.Leakage]) -> None:
    leak = smokers[2]
    assert np.isnan(leak.revealed("smokes")).all()
    assert (leak.revealed("smokes", spread={"smokes": 0.5}) > 0).all()
    made = summary_of_leakage(leak, spread={"smokes": 0.5})
    found = next(a for a in made["attributes"] if a["name"] == "smokes")
    assert found["kind"] == "number"
    assert found["revealed"]["max"] == pytest.approx(leak.revealed("smokes", spread={"smokes": 0.5}).max())


def _label_share(leak: fl.Leakage, y: Any) -> Any:
    square = (leak.per_label() * y.std()) ** 2
    return square / (1 + square)


def test_what_is_revealed_of_the_label(smokers: tuple[Any, Any, fl.Leakage]) -> None:
    _, y, leak = smokers
    label = summary_of_leakage(leak)["label"]
    assert label["kind"] == "number"
    assert label["revealed"]["max"] == pytest.approx(_label_share(leak, y).max())
    table, y = people()
    classes = fl.measure(pipeline(LogisticRegression()).fit(table, y > 5), table, y > 5, fl.Gaussian(0.3))
    label = summary_of_leakage(classes)["label"]
    assert (label["kind"], label["revealed"]) == ("category", None)


def test_the_page(leak: fl.Leakage, tmp_path: Path) -> None:
    table, _ = people()
    path = leak.report(tmp_path / "new" / "report.html", title="A model of <mine>", groups="city", max_eta=1e9)
    text = path.read_text(encoding="utf-8")
    assert "A model of &lt;mine&gt;" in text
    assert "Passed: no person is above the limit" in text
    assert number(float(leak.per_example().max())) in text
    assert "What it costs" not in text
    assert str(table["age"].iloc[0]) not in text
    with pytest.raises(fl.InvalidInputError, match="exists"):
        leak.report(path)
    leak.report(path, overwrite=True)


@pytest.mark.parametrize("kind", ["logistic", "poisson", "classes", "fit", "missing", "laplace", "end to end"])
def test_every_kind_of_model(kind: str, tmp_path: Path) -> None:
    table, y = people()
    options: dict[str, Any] = {"noise": fl.Gaussian(0.3)}
    model: Any = pipeline(Ridge())
    if kind == "logistic":
        model, y = pipeline(LogisticRegression()), np.where(y > np.median(y), "hi", "lo")
    elif kind == "poisson":
        model, y = pipeline(PoissonRegressor(alpha=0.1)), np.round(np.exp(y / 5))
    elif kind == "classes":
        table, y = (part[::5] for part in load_iris(return_X_y=True, as_frame=True))
        model = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8, max_iter=1000))
    elif kind == "laplace":
        options["noise"] = fl.Laplace(0.3)
    elif kind == "end to end":
        options["public"] = "nothing"
    elif kind == "missing":
        from sklearn.impute import SimpleImputer

        table = table[["age", "weight"]].copy()
        table.iloc[3, 0] = np.nan
        model = make_pipeline(SimpleImputer(), StandardScaler(), Ridge())
    if kind == "fit":
        table = table[["age", "weight"]].to_numpy()
        model = fl.minimise(table, y, l2=0.1, intercept=True)
    else:
        model.fit(table, y)
    path = fl.measure(model, table, y, **options).report(tmp_path / "report.html")
    assert path.stat().st_size > 100_000


def test_what_the_slider_would_be_wrong_for_is_refused(leak: fl.Leakage, tmp_path: Path) -> None:
    with pytest.raises(fl.InvalidInputError, match="no single noise"):
        fl.compose(leak, leak).report(tmp_path / "report.html")
    table, y = people()
    X = table[["age", "weight"]].to_numpy()
    drawn = fl.measure(fl.minimise(X, y, l2=0.1), X, y, fl.Posterior(1.0))
    with pytest.raises(fl.InvalidInputError, match="Posterior is not"):
        drawn.report(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_a_category_of_two_texts_is_no_number() -> None:
    """One number encodes it; how well it is told apart is measured all the same."""
    table, y = people()
    table = table.assign(sex=np.where(np.arange(80) % 3, "f", "m")).drop(columns="city")
    steps = make_column_transformer((StandardScaler(), ["age", "weight"]), (OneHotEncoder(drop="first"), ["sex"]))
    model = make_pipeline(steps, Ridge()).fit(table, y)
    made = summary_of_leakage(fl.measure(model, table, y, fl.Gaussian(0.3)))
    found = next(a for a in made["attributes"] if a["name"] == "sex")
    assert (found["kind"], found["revealed"]) == ("category", None)
    assert [each["attribute"] for each in made["distinguishable"]] == ["sex"]
    assert {column["name"]: column["kind"] for column in made["data"]["columns"]}["sex"] == "category"
