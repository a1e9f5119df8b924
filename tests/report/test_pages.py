"""Whole pages in a real browser: the demo's report, objects in an exported notebook, and the documentation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

import fisherleak as fl
from fisherleak.report import render
from fisherleak.report.summarise import summarise

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytestmark = pytest.mark.long
DOCS = Path(__file__).parents[2] / "docs"
BUILT = DOCS / "_build" / "html"
PAGES = ("index", "using", "how-tables-are-read", "reading-the-report", "glossary", "tutorials/own-model", "search")
"""Pages of every make: the first one, prose, wide tables, definitions, cells with output, and the theme's own."""
Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """Opens a file of this machine; what it complains about is refused in the end."""
    contexts, complaints = [], []

    def go(path: Path, width: int = 1280, scheme: str = "light") -> Any:
        contexts.append(
            browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce")
        )
        contexts[-1].route("http*://**", lambda route: route.abort())
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_load_state("load")
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []


def violations(page: Any) -> str:
    """What axe finds on a page; nothing in the end."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    found = axe.Axe().run(page)
    return "" if found.violations_count == 0 else str(found.generate_report())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report that `fisherleak audit` makes without a table, with all attackers."""
    from fisherleak.auditing import Settings, audit
    from fisherleak.tables.read.opening import example_table

    path = tmp_path_factory.mktemp("demo") / "report.html"
    path.write_text(render(summarise(audit(example_table(), Settings("progression"), draws=20))), encoding="utf-8")
    return path


def test_the_demo_is_short(opened: Open, demo: Path, tmp_path: Path) -> None:
    page = opened(demo)
    assert page.evaluate("document.documentElement.scrollHeight") <= 5_000
    assert page.evaluate("document.getElementById('verdict').getBoundingClientRect().bottom") <= 700
    assert page.locator("#attacks-table tbody tr").count() >= 14  # a column, the target and membership
    page.pdf(path=tmp_path / "demo.pdf", format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "demo.pdf").read_bytes())) <= 6


def test_the_demo_fits_and_passes_axe(opened: Open, demo: Path) -> None:
    for width, scheme in ((1280, "light"), (390, "dark")):
        page = opened(demo, width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == ""


def panels() -> list[str]:
    """What objects show of themselves in a notebook."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X = X[["age", "sex"]]
    model = Ridge().fit(X, y)
    leak = fl.measure(model, X, y, fl.Gaussian(0.5))
    limit = 0.9 * float(leak.per_example().max())
    made: list[Any] = [leak, leak.fits[0], leak.noise, fl.attacks.WhiteBox(model, X, y, "sex", rows=range(20))]
    made += [fl.trim(Ridge(), X, y, max_eta=limit, noise=fl.Gaussian(0.5))]
    return [str(each._repr_html_()) for each in made]


def exported(how: str) -> str:
    """A notebook with these outputs as a page: by nbconvert, or as a viewer shows it that lets no script run."""
    shown = panels()
    if how == "nbconvert":
        nbconvert = pytest.importorskip("nbconvert", reason="needs nbconvert")
        made: Any = pytest.importorskip("nbformat.v4", reason="needs nbformat")
        outputs = [made.new_output("display_data", {"text/html": html, "text/plain": "x"}) for html in shown]
        notebook = made.new_notebook(cells=[made.new_code_cell("leak", outputs=[output]) for output in outputs])
        return str(nbconvert.HTMLExporter().from_notebook_node(notebook)[0])
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'none'"
    cells = "".join(f'<div class="jp-RenderedHTML jp-OutputArea-output">{html}</div>' for html in shown)
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
        f'content="{policy}"><title>notebook</title></head><body><main><h1>notebook</h1>{cells}</main></body></html>'
    )


@pytest.mark.parametrize("how", ["viewer", "nbconvert"])
def test_objects_in_an_exported_notebook(opened: Open, tmp_path: Path, how: str) -> None:
    (tmp_path / "notebook.html").write_text(exported(how), encoding="utf-8")
    page = opened(tmp_path / "notebook.html")
    outputs = page.locator(".jp-RenderedHTML")
    count = len(panels())
    assert outputs.count() >= count
    assert page.locator(".jp-RenderedHTML script, .jp-RenderedHTML iframe, .jp-RenderedHTML [onclick]").count() == 0
    tables = page.locator(".jp-RenderedHTML table")
    assert tables.count() == count
    for table in tables.all():
        assert table.is_visible()
        assert re.search(r"\d", table.inner_text())
    if how == "viewer":
        assert violations(page) == ""


@pytest.mark.parametrize("name", PAGES)
def test_the_documentation_passes_axe(opened: Open, name: str) -> None:
    if not (BUILT / f"{name}.html").exists():
        pytest.skip("the documentation is not built: make docs")
    assert violations(opened(BUILT / f"{name}.html")) == ""


@pytest.mark.parametrize(
    ("word", "page"), [("epsilon", "beside-differential-privacy"), ("cite", "cite"), ("tutorial", "tutorials/")]
)
def test_the_documentation_is_searched(opened: Open, word: str, page: str) -> None:
    """From a server, as its readers do: a page from a disk may not read its neighbours."""
    if not (BUILT / "search.html").exists():
        pytest.skip("the documentation is not built: make docs")
    found = opened(BUILT / "search.html")
    found.route(
        "http://docs.test/**", lambda route: route.fulfill(path=BUILT / urlsplit(route.request.url).path.lstrip("/"))
    )
    found.goto(f"http://docs.test/search.html?q={word}")
    assert found.get_by_role("heading", level=1).all_text_contents() == ["Search"]
    found.wait_for_function("document.querySelector('.search-summary')?.textContent.includes('found')")
    links = found.locator("#search-results li a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert any(page in link for link in links), links
