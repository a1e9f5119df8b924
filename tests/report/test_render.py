"""The page as text: everything in the summary is on it, nothing of it is markup, nothing of it is fetched."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from fisherleak._support.numbers import number, percent, percent_at_most
from fisherleak.report import render
from fisherleak.report.render import embedded
from fisherleak.report.words import WORDS
from report import sample

pytest.importorskip("pandas")
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Page(HTMLParser):
    """Elements, attributes and text of a document; fails on elements that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []
        self.text = re.sub(r"\s+", " ", " ".join(self.texts))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in self.raw:
            self.raw[tag].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.raw:
            self.raw[self.open[-1]][-1] += data
        else:
            self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(render(sample.summary()))


@pytest.fixture(scope="module", params=["summary", "hostile", "bare"])
def any_page(request: pytest.FixtureRequest) -> tuple[dict[str, Any], str, Page]:
    made = getattr(sample, request.param)()
    text = render(made)
    return made, text, Page(text)


def texts(value: Any) -> Iterator[str]:
    """Every text of a summary, keys of its mappings apart."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from texts(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from texts(entry)


def figures(value: Any) -> Iterator[float]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value
    elif isinstance(value, (dict, list)):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from figures(entry)


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def test_every_text_is_shown_as_text(any_page: tuple[dict[str, Any], str, Page]) -> None:
    made, _, parsed = any_page
    codes = {"given", "accuracy"}  # what stands for a sentence or a format
    missing = [text for text in texts(made) if squeezed(text) not in parsed.text and text not in codes]
    assert missing == []


def test_every_number_is_shown(page: Page) -> None:
    """Of attributes, groups, attacks, curves, histograms' means, diagnostics; shares as percentages."""
    made = sample.summary()
    made.pop("rows")  # their cells are shown as exposures
    made["eta"]["histogram"].pop("edges")
    made["balance"]["histogram"].pop("edges")
    made.pop("membership")  # in counts of hundred
    shown = set(re.findall(r"[^\s();]+", page.text.replace(" × ", "×")))
    missing = []
    for value in figures(made):
        ways = {number(value).replace(" × ", "×"), *(shown_as(value)[:-2] for shown_as in (percent, percent_at_most))}
        if not any(way in shown or way + "," in shown for way in ways):
            missing.append(value)
    assert missing == []


def test_rows_by_id_and_values_only_where_asked(page: Page) -> None:
    made = sample.summary()
    assert f"{made['rows'][0]['id']} ({made['rows'][0]['row']})" in page.text
    assert "Their values are shown because that was asked for" in page.text
    for row in made["rows"] + made["gate"]["rows"] + made["membership"]["rows"]:
        row |= {"values": None, "id": None}
    hidden = Page(render(made))
    assert "Their values are not on this page" in hidden.text
    assert "P-0" not in hidden.text
    assert f" {made['rows'][0]['row']} " in hidden.text


def test_markup_in_names_stays_text(any_page: tuple[dict[str, Any], str, Page]) -> None:
    _, text, parsed = any_page
    assert [attributes.get("type") for attributes in parsed.all("script")] == ["application/json", None, None]
    assert parsed.all("img") == parsed.all("iframe") == parsed.all("link") == []
    assert not any(name.startswith("on") for _, attributes in parsed.elements for name in attributes)
    assert "<script>alert" not in text
    assert "{{" not in text.split("<body>")[1].split("<script")[0].replace("{{ 7 * 7 }}", "")


def test_json_cannot_end_its_element(any_page: tuple[dict[str, Any], str, Page]) -> None:
    data = any_page[2].raw["script"][0]
    assert not set("<>&\u2028\u2029") & set(data)
    assert json.loads(data)["chosen"]["scale"] == any_page[0]["noise"]["scale"]


def test_nothing_is_fetched(any_page: tuple[dict[str, Any], str, Page]) -> None:
    _, _, parsed = any_page
    for _, attributes in parsed.elements:
        assert not {"src", "srcset", "action", "data", "style", "poster"} & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in parsed.raw["style"][0]
    assert "@import" not in parsed.raw["style"][0]


def test_policy_allows_exactly_these_scripts(page: Page) -> None:
    policy = next(a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy") or ""
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for text in (*page.raw["script"][1:], page.raw["style"][0]):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.count("sha256-") == 3


@pytest.mark.long
def test_size_is_bounded_for_any_audit() -> None:
    made = sample.summary()
    wide, long = 5_000, "w" * 10_000
    made["attributes"] = [made["attributes"][0] | {"name": f"{k}{long}"} for k in range(wide)]
    for row in made["rows"]:
        row |= {"cells": [0.123456789] * wide, "values": {f"{k}{long}": long for k in range(200)}}
    made["data"]["columns"] = [made["data"]["columns"][0] | {"note": long} for _ in range(wide)]
    made["groups"] = [made["groups"][0] | {"name": long} for _ in range(wide)]
    panels = made["eta"]["histogram"]["groups"]
    made["eta"]["histogram"]["groups"] = [panels[0] for _ in range(wide)]
    made["gate"]["rows"] = [{"row": k, "id": long, "eta": 1.0} for k in range(wide)]
    made["gate"]["count"] = wide
    text = render(made)
    assert len(text.encode()) < 3_000_000
    assert "The first 200 of 5,000 columns are shown" in text


def test_usual_size(any_page: tuple[dict[str, Any], str, Page]) -> None:
    assert len(any_page[1].encode("utf-8")) < 1_500_000


def test_every_number_has_its_meaning(page: Page) -> None:
    """Each explanation is asked for somewhere, each button has one, and it is said once."""
    ids = {attributes["id"] for _, attributes in page.elements if "popover" in attributes}
    asked = {a["popovertarget"] for a in page.all("button") if "popovertarget" in a}
    assert ids == asked == {f"word-{key}" for key in WORDS}
    for word in WORDS.values():
        assert page.text.count(squeezed(word.meaning)) == 1
    assert all(a.get("aria-expanded") == "false" for a in page.all("button") if "popovertarget" in a)


def test_headings_landmarks_and_tables(any_page: tuple[dict[str, Any], str, Page]) -> None:
    parsed = any_page[2]
    levels = [int(tag[1]) for tag, _ in parsed.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert [len(parsed.all(tag)) for tag in ("main", "header", "footer")] == [1, 1, 1]
    assert parsed.all("html")[0]["lang"] == "en"
    assert len(parsed.all("caption")) == len(parsed.all("table")) > 0
    assert all(attributes.get("scope") in ("row", "col") for attributes in parsed.all("th"))
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    anchors = {(a["href"] or "")[1:] for a in parsed.all("a")}
    labels = {a["aria-labelledby"] for _, a in parsed.elements if "aria-labelledby" in a}
    assert anchors | labels <= set(ids)


def test_says_what_is_not_promised(page: Page) -> None:
    for words in ("not differential privacy", "says nothing about membership", "not anonymity", "unbiased", "public"):
        assert words in page.text
    assert "This page is itself derived from the data" in page.text


def test_parts_that_may_be_absent() -> None:
    parsed = Page(render(sample.bare()))
    ids = {attributes.get("id") for attributes in parsed.all("section")}
    assert not {"balance", "gate", "groups", "attacks", "policy"} & ids
    assert "so these figures are too good" in parsed.text


def test_a_limit_that_holds() -> None:
    made = sample.summary()
    made["gate"] = {"max_eta": 99.0, "exceeded": False, "count": 0, "rows": []}
    assert "It holds for all 331 rows" in Page(render(made)).text


def test_nothing_revealed_and_a_limit_of_zero() -> None:
    made = sample.summary()
    made["gate"]["max_eta"] = 0.0
    for row in made["rows"]:
        row["cells"] = [0.0 for _ in row["cells"]]
    made["attributes"] = [a | {"eta_max": 0.0, "error_least": None, "error_typical": None} for a in made["attributes"]]
    assert "no limit" in Page(render(made)).text


def test_lone_surrogates_and_controls_can_be_written() -> None:
    made = sample.summary()
    made["title"] = "\ud800 \x00 \x1b[31m"
    render(made).encode("utf-8")


def test_no_sentence_is_said_twice(page: Page) -> None:
    said = [sentence.strip() for sentence in re.split(r"(?<=[.!?:])\s+", page.text)]
    said = [sentence for sentence in said if len(sentence.split()) >= 6 and not re.search(r"\d", sentence)]
    assert sorted({sentence for sentence in said if said.count(sentence) > 1}) == []


@pytest.mark.parametrize("summary", [{}, {"schema": "fisherleak.summary/9"}, None, [1]])
def test_other_schemas_are_refused(summary: Any) -> None:
    with pytest.raises(fl.InvalidInputError, match=r"schema 'fisherleak\.summary/2'"):
        render(summary)


def test_a_missing_part_is_named() -> None:
    made = sample.summary()
    del made["tradeoff"]
    with pytest.raises(fl.InvalidInputError, match="no 'tradeoff'"):
        render(made)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_is_refused(value: float) -> None:
    with pytest.raises(fl.InvalidInputError, match="NaN"):
        embedded([value])


def test_the_vendored_library_is_what_its_page_says() -> None:
    folder = files("fisherleak.report").joinpath("assets", "echarts")
    digest = hashlib.sha256(folder.joinpath("echarts.min.js").read_bytes()).hexdigest()
    assert digest in folder.joinpath("README.md").read_text(encoding="utf-8")
    assert "Apache License" in folder.joinpath("LICENSE").read_text(encoding="utf-8")
    assert folder.joinpath("NOTICE").is_file()
    assert "</script" not in folder.joinpath("echarts.min.js").read_text(encoding="utf-8").lower()


def test_the_choices_of_noise_and_the_slider_agree_on_yes_and_no() -> None:
    """The rarer yes decides the noise here: a tenth of it is what the choice says, and where the slider stands."""
    pandas = pytest.importorskip("pandas")
    from fisherleak.auditing import Settings, audit
    from fisherleak.report.summarise import summarise

    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"age": rng.normal(50, 10, 200), "treated": (np.arange(200) % 20 == 0).astype(int)})
    table["dose"] = 0.1 * table["age"] + table["treated"] + rng.normal(size=200)
    made = summarise(audit(table, Settings("dose"), draws=4, attacks=False))
    found = {a["name"]: a for a in made["attributes"]}
    assert found["treated"]["yes_no"]
    assert max(a["revealed"]["max"] for a in (found["age"], made["label"])) < 0.09
    text = render(made)
    assert re.search(r'data-live="share"[^>]*>(?:9\.[89]|10) %', text)
    assert "a column of two values counts as numeric, with a standard deviation of 1/2" in text


def test_the_best_attacker_is_held_against_what_is_told_without_the_release() -> None:
    """Who learns a column from others needs no model: a model that serves as one gains nothing by it."""
    made = sample.summary()
    first = made["attacks"][0]
    seen = {"worst": 0.9, "q95": 0.8, "median": 0.4, "found": 3}
    one = first | seen | {"attacker": "black-box", "attribute": "dose", "accuracy": 0.375, "baseline": 0.216}
    two = one | {"attacker": "white-box, other columns", "accuracy": 0.385, "baseline": 0.38}
    blind = one | {"attacker": "no model, other columns", "accuracy": 0.38} | dict.fromkeys(seen)
    made["attacks"] = [one, two, blind]
    said = "the best attacker (white-box, other columns) guesses dose correctly 38.5 % of the time, 38 % without the release"
    assert said in render(made)
    made["attacks"] = [one]
    assert "(black-box) guesses dose correctly 38 % of the time, 22 % without the release" in render(made)
