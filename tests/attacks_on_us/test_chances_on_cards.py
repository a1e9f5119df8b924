"""Cards: what follows from all rows and has no noise on it is not there; limits are on what was asked."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.linear_model import GammaRegressor, PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from attacks_on_us.test_cards_and_ledgers import card_of, rewritten
from fisherleak.cli import main

RNG = np.random.default_rng(11)
TABLE = pandas.DataFrame({"a": RNG.normal(50, 10, 600).clip(10, 90).round(1), "b": RNG.normal(40, 8, 600).clip(5, 80)})
TABLE = TABLE.assign(b=TABLE.b.round(1), y=(TABLE.a - TABLE.b + RNG.normal(0, 5, 600)).clip(-60, 80).round(1))
ENDS = [text for pair in ("a=0:100", "b=0:100", "y=-100:100") for text in ("--bounds", pair)]


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("t.csv", index=False)
    line = ["release", "t.csv", "--target", "y", "--model", "linear", "--l2", "1", "--shape", "isotropic", "--eta", "2"]
    assert main([*line, *ENDS, "--out", "m.skops", "--quiet"]) == 0
    return tmp_path / "m.skops"


def test_a_card_does_not_say_how_likely_a_row_changes_its_scale(released: Path) -> None:
    """That follows from all rows: it told with certainty whether a row is there, and no rule counted it."""
    assert card_of(released)["noise"]["calibrated"]["probability"] == 1.0


@pytest.mark.long
def test_a_card_of_this_version_that_says_how_likely_its_scale_changes_is_refused(
    released: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("p.toml").write_text("[membership]\nmax_right = 0.999999\n", encoding="utf-8")
    audit = ["audit", "t.csv", "--released", "m.skops", "--policy", "p.toml", "--no-attacks", "--json", "--overwrite"]
    main(audit)
    assert json.loads(capsys.readouterr().out)["policy"]["passed"] is True
    rewritten(released, lambda card: card["noise"]["calibrated"].update(probability=0.33))
    assert main(audit) == 2
    assert "noise.calibrated" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("kind", [GammaRegressor, PoissonRegressor])
def test_the_label_of_a_saved_model_of_counts_is_limited_in_its_own_unit(kind: Any, tmp_path: Path) -> None:
    """A limit of 1 in the label's own unit, of which the declared width holds a few hundredths, is far below 1 in that width."""
    y = (0.05 + 0.1 * RNG.random(600)).round(3)
    bounds = {"a": (0.0, 100.0), "b": (0.0, 100.0)}
    found = fl.protect(
        make_pipeline(StandardScaler(), kind()), TABLE[["a", "b"]], y, eta=1.0, bounds=bounds | {"label": (0.01, 0.2)}
    )
    # labels that no column tells, in a wide unit
    useless, narrow = "no better than the baseline", "narrowest bounds, those of 'label'"
    with pytest.warns(UserWarning, match=useless), pytest.warns(UserWarning, match=narrow):
        card = card_of(found.save(tmp_path / "m.skops"))
    assert card["eta"]["limit"] == pytest.approx(0.19 / math.sqrt(12.0))
    told = card["noise"]["calibrated"]["bounds"]
    assert {name: each["from"] for name, each in told.items() if "from" in each} == dict.fromkeys(told, "declared")
    undeclared = fl.protect(make_pipeline(StandardScaler(), kind()), TABLE[["a", "b"]], y, eta=1.0, bounds=bounds)
    with pytest.raises(fl.InvalidInputError, match="bounds of 'label' are not declared"):
        undeclared.save(tmp_path / "n.skops")
