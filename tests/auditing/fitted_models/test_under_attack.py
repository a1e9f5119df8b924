"""What attackers know of a fitted model: the noise on its own parameters, the columns, and the scales that they have to learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler

pytest.importorskip("pandas")

import fisherleak as fl
from auditing.fitted_models.models import Case, case, visits
from fisherleak.auditing.fitted_models.attacked_model import model_under_attack
from fisherleak.auditing.fitted_models.under_attack import UnderAttack, columns_to_attack
from fisherleak.models import checked_model, final_estimator
from fisherleak.models.several import all_parameters
from fisherleak.protection.release.release import FittedModel

NOISE = fl.Gaussian(0.2)


def under(given: Case, public: str, noise: Any = NOISE, weights: Any = None) -> UnderAttack | None:
    leak = fl.measure(given.model, given.X, given.y, noise, weights, public=public)
    return model_under_attack(given.model, given.X, given.y, weights, leak, "label")


@pytest.mark.parametrize("shaped", [False, True], ids=["isotropic", "shaped"])
@pytest.mark.parametrize("name", ["ridge", "softmax", "logistic", "search"])
def test_noise_of_a_release_is_that_on_the_parameters_which_attackers_know(name: str, shaped: bool) -> None:
    """Where the noise acts, the parameters are those of the release; turned, they are the model's own, and so is the noise."""
    given = case(name)
    size = all_parameters(final_estimator(given.model)).size
    noise = fl.Gaussian(0.2, np.diag(np.linspace(0.5, 2.0, size))) if shaped else NOISE
    found = under(given, "nothing", noise)
    assert found is not None
    turned: Any = found.noise_on(noise)
    acted, _ = FittedModel(checked_model(given.model), "levels").acted_on(noise)
    np.testing.assert_allclose(turned.turn @ acted, all_parameters(final_estimator(given.model)), rtol=1e-9)
    assert found.scaled_by_rows == {"age", "weight", "smokes"}
    known = under(given, "preprocessing", noise)
    assert known is not None
    assert known.noise_on(noise) is noise
    assert known.scaled_by_rows == frozenset()


def test_moves_count_the_scale_of_the_column_that_is_guessed() -> None:
    """Against the whole pipeline fitted again with another value."""
    from fisherleak.auditing.attackers import _aim, _Attacks

    table = visits(60)[["age", "smokes"]]
    y = visits(60)["dose"]
    model = make_pipeline(StandardScaler(), Ridge(30.0)).fit(table, y)
    found = under(Case(model, table, y, table, y), "nothing")
    assert found is not None
    noise: Any = found.noise_on(NOISE)
    known = _Attacks(found, noise, (), 0, 0, False, 1, {})._known(_aim(found, "smokes", 60, 0))
    own, _ = FittedModel(model, "nothing").acted_on(NOISE)
    for row in (0, 7, 31):
        other = table.copy()
        other.loc[row, "smokes"] = 1 - other.loc[row, "smokes"]
        refit = make_pipeline(StandardScaler(), Ridge(30.0)).fit(other, y)
        raw, coef = FittedModel(model, "nothing"), refit[-1].coef_ / refit[0].scale_
        level = refit[-1].intercept_ - coef @ refit[0].mean_
        # where the noise of the first release acts: scales and centres on its public grid
        scales, centres = np.array([scale.public for scale in raw._known(NOISE)]).T
        away = noise.turn @ (np.append(coef * scales, level + coef @ centres) - own)
        moved = known.moves[int(other.loc[row, "smokes"])].values[row]
        assert np.linalg.norm(moved - away) <= 1e-6 * np.linalg.norm(away)


@pytest.mark.parametrize(
    "steps",
    [[MinMaxScaler()], [PolynomialFeatures(2, include_bias=False), StandardScaler()]],
    ids=["order statistics", "features that columns share"],
)
def test_scales_that_attackers_do_not_learn_are_not_taken_as_known(steps: Any) -> None:
    table, y = visits(60)[["age", "smokes", "weight"]], visits(60)["dose"]
    given = Case(make_pipeline(*steps, Ridge(1.0)).fit(table, y), table, y, table, y)
    assert under(given, "nothing") is None
    assert under(given, "preprocessing") is not None


def test_imputers_and_weights_neither() -> None:
    assert under(case("ridge with an imputer"), "nothing") is None
    table, y = visits(60)[["age", "smokes"]], visits(60)["dose"]
    weights = np.linspace(0.5, 2.0, 60)
    model = make_pipeline(StandardScaler(), Ridge(1.0)).fit(table, y, ridge__sample_weight=weights)
    assert under(Case(model, table, y, table, y), "nothing", weights=weights) is None


def test_columns_with_few_values_are_attacked_by_default() -> None:
    given = case("ridge with an imputer")
    leak = fl.measure(given.model, given.X, given.y, NOISE)
    assert columns_to_attack(leak, None, "dose") == ("smokes", "city")
    assert columns_to_attack(leak, ["crp", "dose"], "dose") == ("crp",)
    assert columns_to_attack(leak, "crp", "dose") == ("crp",)
    found = under(given, "preprocessing")
    assert found is not None
    crp, city = found.column("crp"), found.column("city")
    assert crp.numbers is not None
    np.testing.assert_array_equal(crp.missing, given.X["crp"].isna())
    assert (city.numbers, city.levels) == (None, 3)
