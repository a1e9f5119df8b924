"""People who have several rows: all rows of a person are one set."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas
from scipy.stats import norm

import fisherleak as fl
from fisherleak.auditing.run import audit
from fisherleak.leakage.measurement import measurement
from fisherleak.releasing.files.released_files import load_model, save_model
from fisherleak.report.outputs import write_outputs
from fisherleak.report.render import render
from fisherleak.report.summarise import summarise
from fisherleak.tables import from_frame
from fisherleak.training.balancing import reweighted
from fisherleak.training.people import column_etas, rows_by_person
from fisherleak.training.trained_model import Settings, Trained, calibrated_scale, spreads_in, train
from refits import minimise_scaled, moved_without

pytestmark = pytest.mark.usefixtures("quick_audits")

PLAIN: dict[str, Any] = {"attacks": False, "draws": 3}


def visits(people: int = 40, kind: str = "wage") -> Any:
    """One to five rows for each of some people, in no order."""
    rng = np.random.default_rng(7)
    who = rng.permutation(np.repeat(np.arange(people), rng.integers(1, 6, people)))
    n, own = who.size, rng.normal(0, 1, people)
    frame = pandas.DataFrame(
        {
            "worker": [f"w{k:02d}" for k in who],
            "age": rng.normal(40, 9, n).round(),
            "hours": rng.normal(8, 2, n).round(1),
        }
    )
    frame["job"] = rng.choice(["cook", "nurse", "smith"], n)
    frame["town"] = np.where(own[who] > 0, "Bonn", "Genua")
    wage = frame.age / 10 + own[who] + rng.normal(0, 1, n)
    frame[kind] = wage.round(2) if kind == "wage" else np.where(wage > wage.median(), "yes", "no")
    return frame


def settings(kind: str = "wage", **given: Any) -> Settings:
    return Settings(kind, person="worker", held_out=0.0, **given)


def bounds_of(frame: pandas.DataFrame, kind: str = "wage") -> Any:
    """Of all numbers, so that nobody moves a scale or a centre."""
    names = train(from_frame(frame), settings(kind)).design.unbounded
    return tuple((name, (float(frame[name].min()) - 1.0, float(frame[name].max()) + 1.0)) for name in names)


def dense_etas(trained: Trained, rows: Any, name: str | None) -> list[float]:
    """Of all values, of one column or (without a name) of the labels: every cell by itself, and those of one value tied."""
    attributes = [a for a in measurement(trained.leak).information.attributes if name is None or a.name == name]
    label, X, y = not name, np.asarray(trained.design.X), np.asarray(trained.design.y)
    F = np.asarray(trained.leak.fim(rows, [a.name for a in attributes], label=label))
    cells: list[tuple[Any, ...]] = []
    for row in rows:
        cells += [(a.name, k, *X[row, list(a.columns)]) for a in attributes for k in range(a.size)]
        cells += [("", 0, y[row])] * label
    T = np.array([[one == other for other in dict.fromkeys(cells)] for one in cells], dtype=float)
    return [float(np.linalg.eigvalsh(each)[-1] ** 0.5) for each in (F, T.T @ F @ T)]


@pytest.fixture(scope="module", params=["wage", "sick"])
def trained(request: pytest.FixtureRequest) -> Trained:
    return train(from_frame(visits(kind=request.param)), settings(request.param))


def test_eta_of_a_person_is_that_of_the_rows_taken_jointly(trained: Trained) -> None:
    people = trained.design.people
    assert people is not None
    etas = trained.each_eta()
    for k, rows in enumerate(rows_by_person(people)):
        assert etas[k] == pytest.approx(max(dense_etas(trained, rows, None)), rel=1e-9)
        assert etas[k] >= np.asarray(trained.leak.per_example())[rows].max() * (1 - 1e-9)


def test_columns_and_labels_of_a_person_are_taken_jointly_too(trained: Trained) -> None:
    people = trained.design.people
    assert people is not None
    sets = rows_by_person(people)
    found = column_etas(trained, sets)
    for k in (0, 7, 23):
        own = [max(dense_etas(trained, sets[k], name)) for name in [*trained.leak.attributes, ""]]
        np.testing.assert_allclose(found[k], own, rtol=1e-9)
        alone = [trained.leak.of(sets[k], [name]) for name in trained.leak.attributes]
        assert np.all(found[k, :-1] >= np.array(alone) * (1 - 1e-9))


def test_small_blocks_give_the_same(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    people = trained.design.people
    assert people is not None
    whole = column_etas(trained, rows_by_person(people))
    monkeypatch.setattr("fisherleak.engine.norms.tied_cells.BLOCK_VALUES", 40)
    np.testing.assert_allclose(column_etas(trained, rows_by_person(people)), whole, rtol=1e-12)


def test_a_noise_for_a_limit_keeps_every_person_below_it(trained: Trained) -> None:
    scale = calibrated_scale(trained, 0.3)
    etas = trained.each_eta() / (scale / trained.unit)
    assert etas.max() <= 0.3
    assert etas.max() == pytest.approx(0.3, rel=1e-6)
    top = [(3, float(trained.each_eta().max()))]
    assert calibrated_scale(trained, 0.3, top=top) == pytest.approx(scale, rel=1e-9)


def test_balancing_makes_people_equal_and_gives_their_rows_one_weight(trained: Trained) -> None:
    even = reweighted(trained)
    people = trained.design.people
    assert people is not None
    assert even.weights is not None
    assert np.ptp(even.each_eta()) < 0.05 * np.ptp(trained.each_eta())
    for rows in rows_by_person(people):
        assert np.ptp(even.weights[rows]) == 0


def test_one_row_each_gives_the_figures_of_rows() -> None:
    frame = visits().drop_duplicates("worker")
    rows = audit(frame.drop(columns="worker"), Settings("wage", held_out=0.0), noise=0.1, **PLAIN)
    found = audit(frame, settings(), noise=0.1, **PLAIN)
    np.testing.assert_allclose(found.eta, np.asarray(rows.eta), rtol=1e-7)
    assert [f.largest for f in found.columns] == pytest.approx([f.largest for f in rows.columns])
    np.testing.assert_allclose(found.worst.cells, rows.worst.cells, rtol=1e-7)
    np.testing.assert_allclose(found.worst.eta_label, rows.worst.eta_label, rtol=1e-7)


def test_the_audit_speaks_of_people(tmp_path: Path) -> None:
    frame = visits()
    own = settings(group="town", bounds=bounds_of(frame))
    found = audit(frame, own, noise=0.1, max_eta=1e-6, balance=True, **PLAIN)
    summary = summarise(found)
    data = summary["data"]
    assert (data["person_column"], data["people"], data["train_rows"]) == ("worker", 40, len(frame))
    assert "worker" not in [item["name"] for item in summary["attributes"]]
    assert summary["gate"]["count"] == 40
    assert sum(group["count"] for group in summary["groups"]) == 40
    worst = summary["rows"][0]
    assert worst["rows"] == int((frame.worker == worst["id"]).sum())
    assert found.membership.mu.shape == (40,)
    told = summary["membership"]["rows"][0]
    assert told["rows"] == int((frame.worker == told["id"]).sum())
    page = render(summary)
    assert "of the time about the most exposed person" in page
    assert "of 40 people the best attacker is correct 60 % of the time or more" in page
    assert "The people whose membership is most exposed" in page
    assert "people with the largest η, by worker" in page
    assert "40 of 40 people are above it" in page
    write_outputs(found, summary, tmp_path / "out")
    table = pandas.read_parquet(tmp_path / "out" / "leakage.parquet")
    assert list(table.person) == list(frame.worker)
    assert (table.groupby("person").eta_person.nunique() == 1).all()
    assert (table.eta_person >= table.eta * (1 - 1e-9)).all()
    assert table.eta_person.max() == pytest.approx(worst["eta"])
    assert (table.groupby("person").membership_person.nunique() == 1).all()
    assert table.membership_person.max() == pytest.approx(told["mu"])


@pytest.mark.parametrize("public", ["nothing", "preprocessing"])
@pytest.mark.parametrize("kind", ["wage", "sick", "job"])
def test_membership_is_that_of_fits_without_all_rows_of_a_person(kind: str, public: str) -> None:
    """Linear, logistic and softmax."""
    frame = visits(kind="wage" if kind == "job" else kind)
    own = settings(kind, l2=0.1, public=public, bounds=bounds_of(frame, kind))
    found = audit(frame, own, noise=0.5, **PLAIN)
    assert found.design.people is not None
    expected = [moved_without(found.trained, rows) for rows in rows_by_person(found.design.people)]
    np.testing.assert_allclose(found.membership.mu, expected, rtol=1e-3)
    worst = int(np.argmax(expected))
    assert found.names[found.membership.top[0].row][1] == found.design.people.names[worst]
    right = norm.cdf(np.array(expected) / found.unit_scale / 2)
    assert found.membership.mean == pytest.approx(right.mean(), rel=1e-3)


def test_people_are_held_out_with_all_their_rows() -> None:
    frame = visits()
    design = train(from_frame(frame), Settings("wage", person="worker")).design
    assert design.people is not None
    assert design.held_out > 0
    inside = frame.worker.iloc[np.asarray(design.rows) - 1]
    assert design.people.count == inside.nunique() == 30
    assert len(inside) == frame.worker.isin(set(inside)).sum()


def test_a_level_that_few_people_have_is_not_named_in_a_release(tmp_path: Path) -> None:
    frame = visits()
    frame.loc[frame.worker.isin(["w01", "w02", "w03"]), "job"] = "king"
    assert (frame.job == "king").sum() >= 5
    save_model(from_frame(frame), settings(), tmp_path / "m.skops", eta=1.0, over="max")
    card = json.loads((tmp_path / "m.skops.json").read_text(encoding="utf-8"))
    (job,) = [column for column in card["columns"] if column["name"] == "job"]
    assert "king" not in job["levels"]
    assert "worker" not in [column["name"] for column in card["columns"]]
    assert card["eta"]["limit_on"] == "every person (by 'worker'), all rows together, in standard units"
    noise = load_model(tmp_path / "m.skops").scale
    again = train(from_frame(frame), settings(rare=5))
    assert again.each_eta().max() / (noise / again.unit) <= 1.0


def test_many_rare_categories_of_people_are_pooled_as_those_of_rows(tmp_path: Path) -> None:
    """Sixty codes, of which fifty are kept: terminal, card and model agree that the others are '(other)'."""
    frame = visits(400)
    rng = np.random.default_rng(0)
    own = 1.0 / np.arange(1, 61) ** 1.2
    frame["code"] = [f"c{k:02d}" for k in rng.choice(60, len(frame), p=own / own.sum())]
    for person in ("worker", None):
        options = Settings("wage", person=person, drop=() if person else ("worker",), held_out=0.0)
        said: list[str] = []
        save_model(from_frame(frame), options, tmp_path / "m.skops", noise=1.0, overwrite=True, tell=said.extend)
        (code,) = [c for c in load_model(tmp_path / "m.skops").card["columns"] if c["name"] == "code"]
        assert code["pooled"]
        assert code["levels"][0] == "(other)"
        assert any("pooled into '(other)'" in each for each in said)
        named = frame.groupby("code").worker.nunique()[[c for c in code["levels"] if c != "(other)"]]
        assert named.min() >= 5


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"eta": 1.0}, r"`person` \('worker'\) with `eta` needs `rows_per_person` too.*`over='max'`"),
    ({"eta": 1.0, "over": "max", "attribute": "age"}, "`attribute` cannot be given with `person`"),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED)
def test_a_release_refuses_what_is_about_single_rows(tmp_path: Path, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=sentence):
        save_model(from_frame(visits()), settings(), tmp_path / "m.skops", **given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["wage", "sick"])
def test_people_are_attacked_with_all_their_rows(kind: str) -> None:
    """Against a fit with the other town in all rows of a person; what differs within people is attacked row by row."""
    found = audit(visits(kind=kind), settings(kind, l2=0.1, public="preprocessing"), noise=0.3, draws=3)
    trained, people = found.trained, found.design.people
    assert people is not None
    outcomes = {outcome.attacker: outcome for outcome, _ in found.attacked.outcomes if outcome.attribute == "town"}
    learned = ["white-box, other columns", "no model, other columns"]
    assert list(outcomes) == [learned[0], "white-box with prior", "white-box", learned[1], "prior"]
    assert {outcome.attribute for outcome, _ in found.attacked.outcomes} == {"town", "job", kind}
    assert [found.attacked.whose(name) for name in ("town", "job", kind)] == ["people", "rows", "rows"]
    by_row = {outcome.n for name in ("job", kind) for outcome in found.attacked.parts(name)[0]}
    assert by_row == {found.design.n}
    (town,) = [feature for feature in found.design.features if feature.name == "town"]
    _, scales = spreads_in(found.design)
    lengths = []
    for rows in rows_by_person(people):
        X, (column,) = found.design.X.copy(), town.columns
        X[rows, column] = 1.0 - X[rows, column]
        other = minimise_scaled(X, found.design.y, trained.kind.loss, trained.l2, None, True, scales)
        lengths.append(np.linalg.norm(other.theta - trained.fit.theta))
    right = norm.cdf(np.array(lengths) / found.unit_scale / 2)
    # the nearest model by the plain norm: a little less than the best test, as noise has another shape behind the scaler
    assert -2e-3 <= outcomes["white-box"].accuracy - right.mean() <= 1e-5
    assert outcomes["white-box"].n == 40
    (apart,) = [each for each in found.attacked.distinguishable if each.attribute == "town"]
    assert (apart.worst, apart.median) == pytest.approx((right.max(), np.median(right)), rel=1e-4)
    assert any("A person's rows differ in" in note and "row by row" in note for note in found.attacked.notes)
    assert any("guess a value of one row, and were not run" in note for note in found.attacked.notes)
    page = render(summarise(found))
    assert "Worst person" in page


def test_columns_in_which_rows_of_a_person_differ_are_attacked_as_without_people() -> None:
    options: dict[str, Any] = {"noise": 0.3, "attributes": ["job"], "draws": 3, "quick": True}
    own: dict[str, Any] = {"l2": 0.1, "public": "preprocessing"}
    people = audit(visits(), settings(**own), **options).attacked
    plain = audit(visits(), Settings("wage", drop=("worker",), held_out=0.0, **own), **options).attacked
    mine, other = ({o.attacker: o.accuracy for o in each.parts("job")[0]} for each in (people, plain))
    assert mine == pytest.approx(other, rel=1e-9)


def test_someone_in_several_groups_counts_in_each() -> None:
    found = audit(visits(), settings(group="job", l2=0.1), noise=1.0, **PLAIN)
    frame, people = visits(), found.design.people
    assert people is not None
    etas = dict(zip(people.names, np.asarray(found.rows.eta), strict=True))
    assert sum(group.spread.count for group in found.groups) > people.count
    for group in found.groups:
        own = frame.worker[frame.job == group.name].unique()
        assert group.spread.count == len(own)
        assert group.spread.mean == pytest.approx(np.mean([etas[who] for who in own]))
        # all its rows together tell at least what its rows by themselves do
        rows = np.flatnonzero((frame.job == group.name).to_numpy()[np.asarray(found.design.rows) - 1])
        assert group.joint >= found.trained.leak.of(rows) * (1 - 1e-9)


def test_a_class_that_one_person_has_is_named_by_the_person() -> None:
    frame = visits()
    frame["retired"] = np.where(frame.worker == "w03", "yes", "no")
    found = audit(frame, settings("retired"), noise=1.0, draws=3, quick=True)
    assert any("With label = no in the rows of 'w03' there is no model" in note for note in found.attacked.notes)


def _gone(frame: Any) -> Any:
    frame.loc[3, "worker"] = None
    return frame


BAD: list[tuple[Callable[[Any], Any], dict[str, Any], str]] = [
    (_gone, {}, "The person column 'worker' has 1 missing value"),
    (lambda frame: frame.assign(worker="one"), {}, "has one value only: at least 2 people"),
    (lambda frame: frame, {"drop": ("worker",)}, "it can have one role only"),
]


@pytest.mark.parametrize(("change", "given", "sentence"), BAD)
def test_bad_tables(change: Callable[[Any], Any], given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=sentence):
        audit(change(visits()), settings(**given), noise=1.0, **PLAIN)


def test_many_people_in_one_pass() -> None:
    """As many groups as a table has people: no row is looked at once for each of them."""
    rng = np.random.default_rng(0)
    n, people = 20_000, 5_000
    X, who = rng.normal(size=(n, 4)), rng.integers(0, people, n)
    y = X @ np.ones(4) + rng.normal(size=n)
    leak = fl.measure(fl.minimise(X, y, l2=1e-3), X, y)
    found = leak.by_group(who)
    assert list(found) == sorted(set(who.tolist()))
    for person in (0, 17, 4999):
        assert found[person] == pytest.approx(leak.of(who == person), rel=1e-12)
    noise = fl.calibrate(leak, 0.1, over="group", groups=who)
    assert max(leak.with_noise(noise).by_group(who).values()) <= 0.1
