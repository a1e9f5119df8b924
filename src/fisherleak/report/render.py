"""A summary as one HTML document that opens offline, prints and can be mailed.

The page is a template with autoescaping, our style sheet and scripts, Apache ECharts, and the charts' numbers as JSON. Its
content security policy allows exactly these scripts and this style sheet, by their hashes, and no request of any kind.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from fisherleak.auditing.report_summary import Summary, read_summary
from fisherleak.errors import InvalidInputError
from fisherleak.report import view
from fisherleak.report.sentences import (
    counted_sentence,
    measured_sentence,
    not_promised,
)
from fisherleak.report.verdict import (
    PRICED,
    PRICED_PRESENT,
    choices_in_words,
    present_in_words,
    prices_in_words,
    promise_in_words,
    verdict_of,
)
from fisherleak.report.words import words_for

SCRIPTS = ("numbers.js", "tables.js", "panels.js", "charts.js", "slider.js", "page.js")
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def render(summary: Mapping[str, Any] | Summary) -> str:
    """The report of a summary, as the text of one HTML file.

    Parameters
    ----------
    summary : Summary or mapping
        A mapping is of schema ``fisherleak.summary/2`` or 1: JSON types only, null for what is absent.

    Returns
    -------
    str
        A document without any reference to the outside, to be written as UTF-8.

    Notes
    -----
    **What holds.** Texts of the summary reach the page escaped, and its scripts as JSON that they write as text, never as
    markup. The page is below 3 MB whatever the size of the audit: long tables and texts are cut, and it says where.
    """
    from markupsafe import Markup

    from fisherleak.report.page_templates import page_environment

    page = view.page(read_summary(summary))
    shown = page.shown
    script, library, style = _script(), _asset("echarts/echarts.min.js"), _asset("report.css")
    return (
        page_environment()
        .get_template("report.html.j2")
        .render(
            page.context,
            security=_policy([library, script], style),
            style=Markup(style),  # noqa: S704 - our own file
            library=Markup(library),  # noqa: S704 - the vendored file
            script=Markup(script),  # noqa: S704 - our own files
            charts=Markup(embedded(view.charts(page))),  # noqa: S704 - escaped by embedded
            words=words_for(shown),
            not_promised=not_promised(shown),
            verdict=verdict_of(shown),
            choices_in_words=choices_in_words(shown),
            prices_in_words=prices_in_words(shown),
            present_in_words=present_in_words(shown),
            promise=promise_in_words(shown),
            priced=PRICED,
            priced_present=PRICED_PRESENT,
            measured=measured_sentence(shown),
            counted=counted_sentence(shown),
            most=view.MOST,
            charted=view.CHARTED,
        )
    )


def page_without_scripts(template: str, shown: Mapping[str, Any]) -> str:
    """Another page in the same style, of text and pictures alone: nothing in it runs."""
    from markupsafe import Markup

    from fisherleak.report.page_templates import page_environment

    style = _asset("report.css")
    page = page_environment().get_template(template)
    return page.render(shown, security=_policy([], style), style=Markup(style))  # noqa: S704 - our own file


def embedded(value: Any) -> str:
    r"""JSON that can stand inside a script element: no ``<``, ``>``, ``&`` or line separator in it.

    Examples
    --------
    >>> embedded({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    try:
        text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise InvalidInputError("A summary holds NaN or an infinite number; write null in its place.") from None
    for character, escape in UNSAFE.items():
        text = text.replace(character, escape)
    return text


@functools.cache
def _asset(name: str) -> str:
    return files("fisherleak.report").joinpath("assets", name).read_text(encoding="utf-8")


@functools.cache
def _script() -> str:
    parts = "\n".join(_asset(name) for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();\n'


def _policy(scripts: list[str], style: str) -> str:
    """A content security policy that lets these texts run and nothing be fetched."""
    allowed = " ".join(_digest(text) for text in scripts) or "'none'"
    return f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; base-uri 'none'; form-action 'none'"


@functools.lru_cache(maxsize=8)
def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
