"""Shares of values revealed: against van Trees' bound, counted row by row, the same at every spread that leaves eta s as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from fisherleak import InvalidInputError
from fisherleak.audit import Settings, audit
from fisherleak.audit.revealed import exposure_at, share_of
from fisherleak.bounds import van_trees
from fisherleak.report.summarise import summarise


def test_a_share_is_what_van_trees_takes_from_the_variance() -> None:
    for eta, spread in ((0.1, 3.0), (2.0, 0.5), (0.0, 1.0), (40.0, 7.0)):
        assert share_of(eta * spread) == pytest.approx(1 - van_trees(eta, spread) / spread**2)
    for share in (0.01, 0.5, 0.99):
        assert share_of(exposure_at(share)) == pytest.approx(share)


@pytest.mark.parametrize("kind", ["linear", "logistic", "poisson", "gamma"])
def test_figures_are_those_of_all_rows(kind: str, table_for: Any, target_for: Any) -> None:
    table = table_for(kind)
    result = audit(
        table, Settings(target_for(kind), kind), noise={"linear": 100.0}.get(kind, 0.01), draws=4, attacks=False
    )
    summary = summarise(result)
    (rows,) = result.leakage_rows()
    assert rows.cells is not None
    above = np.zeros(len(rows.eta), dtype=bool)
    of = {a["name"]: (a["revealed"], rows.cells[:, j], table[a["name"]]) for j, a in enumerate(summary["attributes"])}
    of["label"] = (summary["label"]["revealed"], rows.eta_label, table[target_for(kind)])
    without = {name for name, (found, _, _) in of.items() if found is None}
    assert without == ({"city", "label"} if kind == "logistic" else {"city"})
    for found, etas, values in of.values():
        if found is None:
            continue
        used = values.to_numpy()[rows.numbers - 1]
        assert found["spread"] == pytest.approx(used.std())
        shares = (etas * used.std()) ** 2 / (1 + (etas * used.std()) ** 2)
        assert found["max"] == pytest.approx(shares.max())
        assert found["median"] == pytest.approx(share_of(float(np.median(etas)) * used.std()))
        assert found["q95"] == pytest.approx(share_of(float(np.quantile(etas, 0.95)) * used.std()))
        assert found["count"] == np.sum(shares > 0.5)
        above |= shares > 0.5
    assert summary["people"] == {"count": int(above.sum()), "share": 0.5, "measured": True}
    assert above.any()


def test_a_spread_that_is_given_counts(people: Any) -> None:
    table = people[["age", "city", "income"]]
    options: dict[str, Any] = {"noise": 100.0, "draws": 4, "attacks": False}
    plain = summarise(audit(table, Settings("income"), **options))
    wide = summarise(audit(table, Settings("income"), spread={"age": 40.0}, **options))
    before, after = plain["attributes"][0], wide["attributes"][0]
    assert after["revealed"]["spread"] == 40.0
    assert after["revealed"]["max"] == pytest.approx(share_of(40.0 * after["eta_max"]))
    assert before["eta_max"] == after["eta_max"]
    assert before["spread"] == after["spread"]
    assert plain["label"]["revealed"] == wide["label"]["revealed"]
    with pytest.raises(InvalidInputError, match="no number of this model"):
        audit(table, Settings("income"), spread={"city": 1.0}, **options)
    with pytest.raises(InvalidInputError, match="greater than zero"):
        audit(table, Settings("income"), spread={"age": -1.0}, **options)
