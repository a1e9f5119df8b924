"""The verdict: people first, limits by name, costs and the way on, from the numbers of the summary alone."""

from __future__ import annotations

from typing import Any

import pytest

from fisherleak.report.render import render
from report import sample
from report.records import choices_in_words, utility_between, verdict_of


def said(summary: dict[str, Any]) -> Any:
    verdict = verdict_of(summary)
    assert verdict is not None
    return verdict


def test_people_and_limits_come_first() -> None:
    made = sample.summary()
    verdict = said(made)
    people, rows = made["people"]["count"], made["data"]["train_rows"]
    assert people > 0
    assert any(
        line.startswith(
            f"For {people} of {rows} people, more than half of a numeric value is revealed to an attacker who knows everything else. "
        )
        for line in verdict.lines
    )
    assert (verdict.headline, verdict.kept) == ("Failed: 1 of 2 rules of house.toml.", False)
    assert any(line.startswith("Failed, rows.max_eta: ") for line in verdict.lines)
    page = render(made)
    assert page.index(verdict.headline) < page.index("<main") < page.index("Noise and utility</h2>")
    assert "--noise 0.0625 --out model.skops" in page


@pytest.mark.parametrize(
    ("policy", "gate", "headline", "kept"),
    [
        (None, None, "Membership: an attacker is correct up to 100 % of the time", None),
        (True, None, "Passed: all 2 rules of house.toml.", True),
        (None, True, "Passed: no person is above the limit of η = 7.", True),
        (True, False, "Failed: ", False),
        (False, True, "Failed: 1 of 2 rules of house.toml.", False),
    ],
)
def test_headlines(policy: bool | None, gate: bool | None, headline: str, kept: bool | None) -> None:
    made = sample.summary()
    made["policy"] = None if policy is None else made["policy"] | {"passed": policy}
    made["gate"] = None if gate is None else made["gate"] | {"exceeded": not gate}
    verdict = said(made)
    assert verdict.headline.startswith(headline)
    assert verdict.kept is kept


@pytest.mark.parametrize(("recognised", "more"), [(0, ""), (1, ""), (3, " and 2 more")])
def test_it_says_whose_membership_is_most_exposed(recognised: int, more: str) -> None:
    made = sample.summary()
    made["membership"]["recognised"] = recognised
    first = made["membership"]["rows"][0]
    assert any(line.endswith(f" Most exposed: {first['id']} (row {first['row']}){more}.") for line in said(made).lines)


def test_nobody_and_nothing() -> None:
    made = sample.summary()
    made["people"]["count"] = 0
    assert any(line.startswith("At most ") and " of any numeric value is revealed" in line for line in said(made).lines)
    bare = said(sample.bare())
    assert bare.command is None
    assert not any("people" in line for line in bare.lines)
    assert verdict_of({key: value for key, value in made.items() if key != "people"}) is None


def test_what_it_costs_is_read_between_the_scales_that_were_tried() -> None:
    made = sample.summary()
    points = made["tradeoff"]["points"]
    for point in points:
        assert utility_between(made, point["scale"]) == pytest.approx(point["utility"])
    middle = (points[3]["scale"] * points[4]["scale"]) ** 0.5
    assert utility_between(made, middle) == pytest.approx((points[3]["utility"] + points[4]["utility"]) / 2)
    assert utility_between(made, 1e9) is None
    made["next"]["noise"] = points[-1]["scale"]
    made["tradeoff"]["baseline"] = 1.0
    assert "no better than the baseline" in said(made).advice


def test_no_noise_is_chosen_silently() -> None:
    made = sample.choices()
    assert "No noise was given: these figures are for a noise scale of " in said(made).lines[-1]
    for value in (*made["attributes"], made["label"]):
        if value["revealed"]:
            value["revealed"]["max"] = 0.1
    scale = "No noise was given: the noise scale is 0.0625, which reveals at most 10 % of any numeric value."
    assert scale.partition("0.0625")[0] in said(made).lines[-1]
    assert scale.partition("0.0625")[2] in said(made).lines[-1]
    words = choices_in_words(made)
    assert [most for _, most, _ in words] == ["90 %", "50 %", "25 %", "10 %", "5.0 %", "2.0 %", "1.0 %"]
    assert words[0][2].endswith("(more than 99 % of the gain over the baseline)")
    assert words[-2][2].endswith("no better than the baseline")
    assert words[-1][2] == "not measured"
    page = render(made)
    assert "Choices of noise" in page
    assert all(left in page for _, _, left in words[-2:])
    made["tradeoff"]["baseline"] = made["tradeoff"]["without_noise"] - 1e-9
    assert "no better than the baseline: collect more rows, or allow more" in said(made).cost
    made["tradeoff"]["baseline"] = 1e9  # less noise would not help
    assert "no better than the baseline, and so is the model without noise" in said(made).cost
    assert "allow more" not in said(made).cost


def test_a_category_is_said_with_hints_of_other_columns_and_without_the_release() -> None:
    made = sample.summary()
    made["distinguishable"] = [
        {"attribute": "sex", "rows": 9, "worst": 0.8, "q95": 0.7, "median": 0.6, "error_least": 0.1},
    ]
    attack = {**made["attacks"][0], "attacker": "white-box, other columns", "attribute": "sex"}
    made["attacks"] = [{**attack, "accuracy": 0.674, "baseline": 0.671}]
    hints = " Other columns alone give 67 % on average, with the release 67 %."
    assert any("most exposed category" in line and line.endswith(hints) for line in said(made).lines)
    made["attacks"][0]["attribute"] = "another"
    assert hints not in " ".join(said(made).lines)


def test_where_no_share_is_known_the_verdict_says_so() -> None:
    made = sample.summary()
    unknown = "No share of a numeric value is known here."
    assert not any(line.startswith(unknown) for line in said(made).lines)
    made["people"]["measured"] = 0
    assert any(line.startswith(unknown) for line in said(made).lines)
    for attribute in made["attributes"]:
        attribute["kind"] = "category"
    assert not any(line.startswith(unknown) for line in said(made).lines)


def test_the_cost_says_how_much_of_the_gain_is_left() -> None:
    made = sample.summary()
    curve = made["tradeoff"]
    curve |= {"baseline": 0.2, "without_noise": 0.6, "higher_is_better": True, "note": ""}
    for point in curve["points"]:
        point["utility"] = 0.5
    made["noise"]["scale"] = curve["points"][0]["scale"]
    assert ": 75 % of the gain is left." in said(made).cost
    curve["note"] = "The gain is within its own error."
    assert "of the gain" not in said(made).cost


def test_no_category_is_called_best_beside_others_that_were_not_tried() -> None:
    made = sample.summary()
    made["distinguishable"] = [
        {"attribute": "sex", "rows": 9, "worst": 0.8, "q95": 0.7, "median": 0.6, "error_least": 0.1},
    ]
    for attribute in made["attributes"]:
        attribute["kind"] = "category" if attribute["name"] == "sex" else "number"
    assert (
        "The most exposed category is sex: an attacker guesses it correctly at most 80 % of the time (median 60 %, "
        in " ".join(said(made).lines)
    )
    next(a for a in made["attributes"] if a["name"] != "sex")["kind"] = "category"
    assert "The most exposed category of 1 tried is sex. An attacker guesses it" in " ".join(said(made).lines)
    number = next(a for a in made["attributes"] if a["kind"] == "number")
    made["distinguishable"].append({**made["distinguishable"][0], "attribute": number["name"], "worst": 0.9})
    assert "The most exposed category of 1 tried is sex. An attacker guesses it" in " ".join(said(made).lines)


def test_limits_that_hold_do_not_advise_a_model_that_is_of_no_use() -> None:
    made = sample.summary()
    made["policy"] |= {"passed": True}
    made["gate"] = None
    kept = "Every limit holds: release the model with this noise."
    made["next"] = made["next"] | {"noise": made["noise"]["scale"], "eta": None, "note": kept}
    assert said(made).advice == kept
    constant = made["tradeoff"]["baseline"]
    for point in made["tradeoff"]["points"]:
        point["utility"] = constant - 0.1 if made["tradeoff"]["higher_is_better"] else constant + 0.1
    verdict = said(made)
    assert verdict.advice == "Every limit holds, but with this noise the model is no better than the baseline."
    assert verdict.command is None


def test_whether_the_model_may_be_published_is_said_first_where_no_limit_was_set() -> None:
    made = sample.summary()
    made["policy"] = made["gate"] = None
    made["noise"] |= {"chosen": "default"}
    (line,) = [line for line in said(made).lines if "No noise or limit was given" in line]
    assert line.startswith("Whether the model may be published is open until you set a limit. ")
