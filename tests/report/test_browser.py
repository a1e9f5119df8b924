"""The page in a real browser, with the network off: Debian's chromium, driven by playwright.

Pictures of it go to the folder that FISHERLEAK_ARTEFACTS names, to be looked at.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fisherleak._support.numbers import number, percent, percent_at_most
from fisherleak.report import render
from report import sample

pytest.importorskip("pandas")
playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright: pip install playwright")
pytestmark = pytest.mark.long
REPORTS = Path(__file__).parents[2] / "docs" / "reports"
PARTS = ("summary", "hostile", "bare", "choices")
ALSO = ("many",)
"""Pages that a few tests look at."""
LINES = """all => all.filter(e => e.checkVisibility()).map(e => {
  const r = document.createRange(); r.selectNodeContents(e);
  return [e.textContent.trim(), new Set([...r.getClientRects()].map(q => Math.round(q.top))).size]; })"""
CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((s, v, k) => s + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const poor = [];
  for (const e of document.querySelectorAll("body *")) {
    if (!e.checkVisibility() || e.closest("svg, script, .skip") || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(e.textContent.slice(0, 40));
  }
  return poor;
}"""


@dataclass
class Opened:
    """A page, and what it asked for and complained about."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def dismiss(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.page.locator(selector).all_text_contents()
        return found

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).first.text_content())


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("report")
    for part in (*PARTS, *ALSO):
        (folder / f"{part}.html").write_text(render(getattr(sample, part)()), encoding="utf-8")
    return {part: folder / f"{part}.html" for part in (*PARTS, *ALSO)}


def opened_in(
    browser: Any, document: Path, width: int = 1280, scheme: str = "light", folded: bool = False, **options: Any
) -> Opened:
    """Opens a document offline; every request that is not the document itself is refused, and counted."""
    size = {"width": width, "height": 800}
    context = browser.new_context(viewport=size, color_scheme=scheme, offline=True, reduced_motion="reduce", **options)
    opened, address = Opened(context.new_page()), document.as_uri()
    context.route("**/*", lambda route: route.continue_() if route.request.url == address else route.abort())
    opened.page.on("request", lambda request: opened.requests.append(request.url))
    opened.page.on("console", lambda message: opened.complaints.append(message.text))
    opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.page.on("dialog", opened.dismiss)
    opened.page.goto(address)
    opened.page.wait_for_load_state("load")
    if not folded and options.get("java_script_enabled", True):
        opened.page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
        opened.page.wait_for_function(
            "[...document.querySelectorAll('[data-chart]')].every(e => e.querySelector('svg'))"
        )
    return opened


@pytest.fixture
def visit(browser: Any, documents: dict[str, Path]) -> Iterator[Callable[..., Opened]]:
    """A page of one's own, to click and type in."""
    made: list[Opened] = []

    def go(part: str = "summary", **options: Any) -> Opened:
        made.append(opened_in(browser, documents[part], **options))
        return made[-1]

    yield go
    for each in made:
        each.page.context.close()


@pytest.fixture(scope="module")
def seen(browser: Any, documents: dict[str, Path]) -> Iterator[Callable[..., Opened]]:
    """A page that other tests look at too: to read, not to change."""
    made: dict[tuple[str, int, str, bool], Opened] = {}

    def go(part: str = "summary", width: int = 1280, scheme: str = "light", folded: bool = False) -> Opened:
        key = (part, width, scheme, folded)
        if key not in made:
            made[key] = opened_in(browser, documents[part], width, scheme, folded)
        return made[key]

    yield go
    for each in made.values():
        each.page.context.close()


def pages_of(paper: Path) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes()))


@pytest.fixture
def artefacts(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("FISHERLEAK_ARTEFACTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize("part", PARTS)
def test_opens_offline_without_a_complaint(visit: Callable[..., Opened], documents: dict[str, Path], part: str) -> None:
    opened = visit(part)
    for chart in opened.page.locator("[data-chart]").all():
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert chart.locator("svg path").count() > 0
    assert opened.requests == [documents[part].as_uri()]
    assert opened.complaints == []
    assert opened.dialogs == []


def test_all_charts_are_there(seen: Callable[..., Opened]) -> None:
    shown = seen().page.locator("[data-chart]").evaluate_all("all => all.map(e => e.dataset.chart)")
    assert shown == ["tradeoff", "eta", "heat", "attributes", "groups", "attacks", "balance"]


def test_slider_moves_every_number_together(visit: Callable[..., Opened]) -> None:
    opened, made = visit(), sample.summary()
    chosen, points = made["noise"]["scale"], made["tradeoff"]["points"]
    most = max(a["revealed"]["max"] for a in made["attributes"] if a["revealed"])
    exposure, chance = np.sqrt(most / (1 - most)), made["attacks"][0]["baseline"]

    def check(sigma: float) -> None:
        assert opened.text("[data-live=max]") == number(made["eta"]["examples"]["max"] * chosen / sigma)
        assert opened.text("[data-live=share]") == percent_at_most(1 - 1 / (1 + (exposure * chosen / sigma) ** 2))
        logs = np.log([point["scale"] for point in points])
        utility = np.interp(np.log(sigma), logs, [point["utility"] for point in points])
        attack = np.interp(np.log(sigma), logs, [point["attacks"][0]["accuracy"] for point in points])
        assert opened.text("[data-live=utility]") == percent(float(utility))
        assert opened.text("[data-live-attack]") == percent(float(attack), chance)
        least = {a["name"]: a["error_least"] for a in made["attributes"]}
        for row in opened.page.locator("[data-live-error]").all():
            name, error = row.locator("th").text_content(), row.locator("td").first.text_content()
            assert error == f"± {number(least[name] * sigma / chosen)}"

    check(chosen)
    slider = opened.page.locator("#sigma")
    slider.focus()
    slider.press("End")
    check(points[-1]["scale"])
    slider.press("Home")
    check(points[0]["scale"])
    slider.evaluate("e => { e.value = 640; e.dispatchEvent(new Event('input')); }")
    check(float(f"{points[0]['scale'] * (points[-1]['scale'] / points[0]['scale']) ** 0.64:.6g}"))
    opened.page.get_by_role("button", name="Back to the chosen σ").click()
    check(chosen)
    assert opened.complaints == []


def test_slider_is_for_keyboards_and_screen_readers(visit: Callable[..., Opened]) -> None:
    opened = visit()
    slider = opened.page.get_by_role("slider", name="Scale of the noise σ")
    before = opened.text("[data-live=max]")
    slider.press("ArrowRight")
    assert re.fullmatch(r"σ = [\d.]+", slider.get_attribute("aria-valuetext"))
    for _ in range(30):
        slider.press("ArrowRight")
    assert opened.text("[data-live=max]") != before
    status = opened.page.locator("#sigma-said")
    playwright.expect(status).to_contain_text(f"most exposed row {opened.text('[data-live=max]')}")


def test_slider_without_a_curve(visit: Callable[..., Opened]) -> None:
    opened = visit("bare")
    before = opened.text("[data-live=max]")
    opened.page.locator("#sigma").press("End")
    assert opened.text("[data-live=max]") == number(sample.bare()["eta"]["examples"]["max"] / 100) != before


@pytest.mark.parametrize(
    "table",
    [
        "gate-table",
        *(
            pytest.param(f"{name}-table", marks=pytest.mark.long)
            for name in ("rows", "attributes", "groups", "attacks")
        ),
    ],
)
def test_tables_sort_by_every_header(visit: Callable[..., Opened], table: str) -> None:
    page = visit().page
    headers = page.locator(f"#{table} thead th[aria-sort]")
    for k in range(headers.count()):
        header, button = headers.nth(k), headers.nth(k).locator("button.sort")
        for _ in range(2):
            button.press("Enter")
            direction, column = header.evaluate("e => [e.getAttribute('aria-sort'), e.cellIndex]")
            cells = page.locator(f"#{table} tbody tr").evaluate_all(
                "(rows, k) => rows.map(r => [r.cells[k].dataset.value ?? null, r.cells[k].textContent.trim()])", column
            )
            if cells[0][0] is not None:
                values = [float(value) for value, _ in cells if value]
                assert values == sorted(values, reverse=direction == "descending")
                assert all(not value for value, _ in cells[len(values) :])
            else:
                ordered = "(words, sign) => words.every((w, k) => !k || sign * words[k - 1].localeCompare(w, undefined, {numeric: true}) <= 0)"
                assert page.evaluate(
                    f"([words, sign]) => ({ordered})(words, sign)",
                    [[t for _, t in cells], 1 if direction == "ascending" else -1],
                )
        sorts = headers.evaluate_all("all => all.map(e => e.getAttribute('aria-sort'))")
        assert set(sorts[:k] + sorts[k + 1 :]) <= {"none"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_theme_follows_the_system_and_the_button(visit: Callable[..., Opened], scheme: str) -> None:
    page = visit(scheme=scheme).page
    toggle = page.get_by_role("button", name="Dark theme")
    paint = (
        "() => [getComputedStyle(document.body).backgroundColor, document.querySelector('[data-chart=eta]').innerHTML]"
    )
    assert toggle.get_attribute("aria-pressed") == str(scheme == "dark").lower()
    before = page.evaluate(paint)
    toggle.focus()
    toggle.press("Space")
    after = page.evaluate(paint)
    assert toggle.get_attribute("aria-pressed") == str(scheme != "dark").lower()
    assert before[0] != after[0]
    assert before[1] != after[1]
    toggle.press("Enter")
    assert page.evaluate(paint)[0] == before[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(seen: Callable[..., Opened], scheme: str) -> None:
    page = seen(scheme=scheme).page
    assert page.evaluate(CONTRAST) == []


def test_explanations_open_and_close_by_keyboard(visit: Callable[..., Opened]) -> None:
    page = visit().page
    button = page.locator("button[popovertarget=word-eta_row]").first
    note = page.locator("#word-eta_row")
    assert not note.is_visible()
    button.focus()
    before = page.evaluate("scrollY")
    assert before > 0
    button.press("Enter")
    assert note.is_visible()
    playwright.expect(button).to_have_attribute("aria-expanded", "true")
    assert page.evaluate("scrollY") == before
    at, size = note.bounding_box(), page.viewport_size
    assert at["x"] >= 0
    assert at["x"] + at["width"] <= size["width"]
    assert at["y"] + at["height"] <= size["height"]
    page.keyboard.press("Escape")
    assert not note.is_visible()
    playwright.expect(button).to_have_attribute("aria-expanded", "false")
    assert button.evaluate("e => document.activeElement === e")


@pytest.mark.parametrize(("chart", "name"), [("heat", 0), ("eta", 0), ("tradeoff", 0), ("attacks", 0)])
def test_tooltips_show_markup_as_text(visit: Callable[..., Opened], chart: str, name: int) -> None:
    opened = visit("hostile")
    place = opened.page.locator(f"[data-chart={chart}]")
    place.scroll_into_view_if_needed()
    before = place.locator("svg text").count()
    box = place.bounding_box()
    seen = ""
    for across, down in np.ndindex(12, 12):
        opened.page.mouse.move(
            box["x"] + box["width"] * (across + 0.5) / 12, box["y"] + box["height"] * (down + 0.5) / 12
        )
        if place.locator("svg text").count() > before:
            seen = " ".join(place.locator("svg text").all_text_contents()[before:])
            if sample.HOSTILE[name] in seen:
                break
    assert sample.HOSTILE[name] in seen
    assert place.locator("script, img, iframe, foreignObject").count() == 0
    assert opened.dialogs == []
    assert opened.complaints == []


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_scrolls_sideways(seen: Callable[..., Opened], part: str, width: int) -> None:
    page = seen(part, width=width).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    regions = page.locator(".scroll").evaluate_all("all => all.every(e => e.tabIndex === 0 && e.role === 'region')")
    assert regions
    if part == "summary":
        wide = page.locator(".scroll").evaluate_all(
            "all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.querySelector('table').id)"
        )
        assert wide == (["rows-table"] if width == 1280 else [])  # all values of rows, where they are asked for


def test_buttons_stay_on_one_line_on_a_phone(seen: Callable[..., Opened]) -> None:
    page = seen(width=390).page
    buttons = page.locator("#theme, .plain")
    assert {"Dark theme", "Copy", "Back to the chosen σ"} <= set(buttons.all_text_contents())
    lines = "all => all.filter(e => e.checkVisibility()).map(e => { const r = document.createRange(); r.selectNodeContents(e); return r.getClientRects().length; })"
    assert set(buttons.evaluate_all(lines)) == {1}


def test_no_option_of_a_command_and_no_name_of_a_column_is_broken_on_a_phone(seen: Callable[..., Opened]) -> None:
    page = seen(width=390).page
    words = page.locator(".command code span").evaluate_all(LINES)
    assert "--out" in [word for word, _ in words]
    names = page.locator("#attributes-table th.name, #etas-table th.name, #rows-table td.name").evaluate_all(LINES)
    assert names
    assert [text for text, lines in [*words, *names] if lines > 1 and len(text) < 14 and " " not in text] == []
    code = page.locator(".command code").first
    assert code.text_content() == " ".join(code.locator("span").all_text_contents())


def test_the_panels_of_a_chart_are_aligned_on_a_phone(seen: Callable[..., Opened]) -> None:
    """A title that is too long for its panel would narrow it, and the lines of the chosen noise would not meet."""
    made = sample.summary()["tradeoff"]
    shown = seen(width=390).page.locator("[data-chart=tradeoff] svg text").all_text_contents()
    assert made["label"].partition(",")[0] in shown


@pytest.mark.parametrize("name", ["choices", "prices"])
def test_choices_are_seen_whole_on_a_phone(seen: Callable[..., Opened], name: str) -> None:
    around = seen("choices", width=390).page.locator(f"#{name}-table").locator("..")
    assert around.evaluate("box => box.scrollHeight - box.clientHeight") <= 1


def test_numbers_of_the_map_and_heads_of_groups_keep_their_lines_on_a_phone(seen: Callable[..., Opened]) -> None:
    page = seen(width=390).page
    numbers = page.locator("#heat-table td").evaluate_all(LINES)
    heads = page.locator("#groups-table thead button").evaluate_all(LINES)
    assert len(numbers) > 20
    assert "Difference" in [text for text, _ in heads]
    assert [text for text, count in [*numbers, *heads] if count > 1 and (" " not in text or "×" in text)] == []


def test_many_columns_break_no_numbers_and_no_words_of_heads_on_a_phone(seen: Callable[..., Opened]) -> None:
    page = seen("many", width=390).page
    numbers = page.locator("#rows-table th[data-value], #rows-table td:nth-child(6), #tradeoff-table td")
    found = dict(numbers.evaluate_all(LINES))
    assert len(found) > 60
    assert [text for text, lines in found.items() if lines > 1] == []
    heads = dict(
        page.locator("#rows-table thead button.sort, #tradeoff-table thead th:nth-child(-n + 5)").evaluate_all(LINES)
    )
    assert {"Row", "Most revealed", "Utility"} <= set(heads)
    assert [text for text, lines in heads.items() if lines > len(text.split())] == []
    wide = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.querySelector('table').id)"
    assert page.locator(".scroll").evaluate_all(wide) == []


@pytest.mark.parametrize(("width", "least"), [(390, 10), (1280, 40)])
def test_names_above_the_map_do_not_run_into_one_another(seen: Callable[..., Opened], width: int, least: int) -> None:
    """They stand aslant, so that lines of text are as far apart as their ends times the sine of the angle."""
    texts = seen("many", width=width).page.locator("[data-chart=heat] svg text")
    places = texts.evaluate_all(
        "all => all.filter(e => e.textContent.startsWith('pixel_')).map(e => [e.getCTM().e, e.getCTM().a])"
    )
    ends = sorted(x for x, _ in places)
    assert len(ends) >= least
    assert {round(float(np.degrees(np.arccos(cosine)))) for _, cosine in places} == {50}
    assert float(np.diff(ends).min()) * np.sin(np.radians(50)) >= 12  # the height of the letters


@pytest.mark.parametrize(
    ("folded", "scheme", "rules"), [(True, "light", None), (False, "light", None), (False, "dark", ["color-contrast"])]
)
def test_axe_finds_nothing(seen: Callable[..., Opened], folded: bool, scheme: str, rules: list[str] | None) -> None:
    """Themes differ in their colours only; of the rows of a table, the first are looked at, and the contrast of all above."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    options = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
    rows = {"include": [["html"]], "exclude": [["tbody tr:nth-child(n+4)"]]}
    found = axe.Axe().run(seen(scheme=scheme, folded=folded).page, context=rows, options=options)
    assert found.violations_count == 0, found.generate_report()


def test_short_and_the_verdict_first(seen: Callable[..., Opened]) -> None:
    """The demo's page is no longer than this one, which has all parts."""
    page = seen(folded=True).page
    assert page.evaluate("document.documentElement.scrollHeight") <= 3_000
    assert page.evaluate("document.getElementById('verdict').getBoundingClientRect().bottom") <= 700
    assert page.locator("details.part[open]").count() == 1


@pytest.mark.parametrize("name", ["adult", "iwpc"])
def test_real_reports_answer_on_the_first_screen_of_a_phone_and_on_six_pages(
    browser: Any, tmp_path: Path, name: str
) -> None:
    document, paper = tmp_path / f"{name}.html", tmp_path / f"{name}.pdf"
    document.write_text(render(json.loads((REPORTS / f"{name}.json").read_text(encoding="utf-8"))), encoding="utf-8")
    page = opened_in(browser, document, 390, folded=True).page
    assert page.evaluate("document.getElementById('verdict').getBoundingClientRect().bottom") <= 700
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for size in ("A4", "Letter"):
        page.pdf(path=paper, format=size)
        assert pages_of(paper) <= 6, size
    page.context.close()


def test_a_link_opens_its_part(visit: Callable[..., Opened]) -> None:
    page = visit(folded=True).page
    assert not page.locator("#attacks-table").is_visible()
    page.evaluate("location.hash = '#attacks'")
    page.wait_for_selector("#attacks-table", state="visible")


def test_the_slider_of_limits_shows_each_release_and_its_command(visit: Callable[..., Opened]) -> None:
    opened = visit("choices")
    page = opened.page
    assert opened.text("#limit-value") == "η ≤ 1"
    assert opened.text("#command") == "fisherleak release a.csv --eta 1 --out model.skops"
    page.locator("#limit").focus()
    page.keyboard.press("ArrowRight")
    assert opened.text("#limit-value") == "η ≤ 2"
    assert opened.text("#command") == "fisherleak release a.csv --shape isotropic --eta 2 --out model.skops"
    shown = page.locator("[data-limit]").all_text_contents()
    row = page.locator("#prices-table tbody tr").nth(2).locator("td").all_text_contents()
    assert shown == row
    page.locator("#sigma").focus()
    page.keyboard.press("ArrowRight")
    assert opened.text("#command").endswith("--eta 2 --out model.skops")
    assert opened.complaints == []


def test_targets_in_words_set_the_slider(visit: Callable[..., Opened]) -> None:
    opened, made = visit(), sample.summary()
    page, chosen = opened.page, made["noise"]["scale"]
    before, after = made["next"]["command_for"]
    page.locator("#target-share").fill("10")
    page.locator("#target-share").press("Enter")
    assert float(opened.text("[data-live=share]").rstrip(" %")) == pytest.approx(10, abs=0.15)
    sigma = float(opened.text("#command").removeprefix(before).removesuffix(after))
    most = max(a["revealed"]["max"] for a in made["attributes"] if a["revealed"])
    exposure = np.sqrt(most / (1 - most)) * chosen / sigma
    assert 0.098 < exposure**2 / (1 + exposure**2) <= 0.1
    page.locator("#target-column").select_option("age")
    page.locator("#target-error").fill("2")
    page.locator("#target-error").press("Enter")
    sigma = float(opened.text("#command").removeprefix(before).removesuffix(after))
    least = next(a["error_least"] for a in made["attributes"] if a["name"] == "age") * sigma / chosen
    assert 2 <= least < 2.03
    assert opened.complaints == []


def test_long_names_of_attackers_are_not_cut(seen: Callable[..., Opened]) -> None:
    page = seen(width=600).page
    shown = " ".join(page.locator("[data-chart=attacks] svg text").all_text_contents())
    assert "…" not in shown
    for attack in sample.summary()["attacks"]:
        assert all(word in shown for word in attack["attacker"].split())


def test_charts_follow_the_width(visit: Callable[..., Opened]) -> None:
    page = visit().page
    page.set_viewport_size({"width": 500, "height": 800})
    page.wait_for_function("document.querySelector('[data-chart=eta] svg').getBoundingClientRect().width < 500")


def test_skip_link_comes_first(visit: Callable[..., Opened]) -> None:
    page = visit().page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["y"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_without_scripts_the_tables_remain(visit: Callable[..., Opened]) -> None:
    opened = visit(java_script_enabled=False)
    assert "Scripts are off" in opened.text("main")
    assert opened.page.locator("#rows-table tbody tr").count() == 50


def test_numbers_are_written_as_in_python(browser: Any) -> None:
    source = files("fisherleak.report").joinpath("assets", "numbers.js").read_text(encoding="utf-8")
    rng = np.random.default_rng(0)
    values = [0.0, 1.0, 999.6, 9995.0, 999_950.0, 1e6, 1e-3, 9.996e-4, -2.5, 48213.7, 1e-300, 1e300]
    values += [float(v) for v in rng.normal(size=200) * 10.0 ** rng.integers(-9, 9, size=200)]
    page = browser.new_page()
    written = page.evaluate(f"(values) => {{ {source}; return values.map((v) => number(v)); }}", values)
    page.close()
    assert written == [number(value) for value in values]


def test_paper(visit: Callable[..., Opened], artefacts: Path) -> None:
    page = visit(scheme="dark", folded=True).page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details[data-paper]:not([open])").count() == 0
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator(".slider").is_visible()
    assert page.locator("#attributes-table").is_visible()
    assert not page.locator("#heat-table").is_visible()
    widths = page.locator("[data-chart] svg").evaluate_all("all => all.map(e => e.getBoundingClientRect().width)")
    assert max(widths) <= 680  # A4 less its margins
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 1
    page.pdf(path=artefacts / "report.pdf", format="A4")
    written = (artefacts / "report.pdf").read_bytes()
    assert written.startswith(b"%PDF")
    # every part that a report can have: a gate, a policy, groups and a balance beside the demo's, which are on six
    assert pages_of(artefacts / "report.pdf") <= 12


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "part", "width", "scheme"),
    [
        ("light", "summary", 1280, "light"),
        ("dark", "summary", 1280, "dark"),
        ("phone", "summary", 390, "light"),
        ("markup", "hostile", 1280, "light"),
    ],
)
def test_pictures(seen: Callable[..., Opened], artefacts: Path, name: str, part: str, width: int, scheme: str) -> None:
    page = seen(part, width=width, scheme=scheme).page
    page.screenshot(path=artefacts / f"report-{name}.png", full_page=True)
    assert (artefacts / f"report-{name}.png").stat().st_size > 100_000
