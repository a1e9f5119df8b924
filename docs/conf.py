"""Sphinx configuration."""

import json
import os
import sys
from pathlib import Path

import fisherleak
from fisherleak.report import render

sys.path.insert(0, str(Path(__file__).parent))
from terminal import write_pictures

project = "fisherleak"
copyright = "2026, the fisherleak developers"  # noqa: A001
version = release = fisherleak.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "mathml", "signatures"]
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "amsmath"]
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["terminal.css"]
exclude_patterns = ["_build"]

# the reports of the gallery, made anew from their summaries
_here = Path(__file__).parent
_reports = _here / "_build" / "extra" / "reports"
_reports.mkdir(parents=True, exist_ok=True)
for _summary in sorted((_here / "reports").glob("*.json")):
    (_reports / f"{_summary.stem}.html").write_text(render(json.loads(_summary.read_text("utf-8"))), encoding="utf-8")
html_extra_path = ["_build/extra"]
nitpicky = False

# what commands print on a terminal of 80 columns
write_pictures(_here / "_build" / "terminal")

# tutorials run when the pages are built, and a cell that fails fails the build; their commands are those of this environment
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
nb_execution_mode = "force"
nb_execution_timeout = 600  # seconds for a cell: a busy machine takes several times as long
nb_execution_raise_on_error = True

# those of data sets run where their files are at hand; else the pages are built without output, and say so
_data = os.environ.get("FISHERLEAK_DATA")
_files = {"iwpc": ("iwpc-scaled.csv", "warfarin-dose"), "adult": ("adult.data", "adult-incomes")}
nb_execution_excludepatterns = []
for _name, (_file, _page) in _files.items():
    if _data and (Path(_data) / _name / _file).exists():
        tags.add(_name)  # noqa: F821 - Sphinx has it
    else:
        nb_execution_excludepatterns.append(f"tutorials/{_page}.md")

# what the theme leaves out for screen readers and keyboards: headings, their levels, names of landmarks, focus on what scrolls
MENDED = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    '<div class="content-icon-container">': '<div class="content-icon-container" role="navigation" aria-label="This page">',
    '<div id="search-results"></div>': '<h1>Search</h1>\n<div id="search-results" aria-live="polite"></div>',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
}


def mend(app, failed):
    """Write the pages anew with what the theme leaves out."""
    if failed is not None or app.builder.format != "html":
        return
    for page in Path(app.outdir).rglob("*.html"):
        if "reports" in page.relative_to(app.outdir).parts:
            continue
        text = page.read_text("utf-8")
        for before, after in MENDED.items():
            text = text.replace(before, after)
        page.write_text(text, encoding="utf-8")


def setup(app):
    """Sphinx calls this."""
    app.connect("build-finished", mend)
