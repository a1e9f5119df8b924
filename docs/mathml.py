"""Formulas as MathML, which browsers show without a script and without a network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

SPELLINGS = {
    r"\\[bB]igg?[lr]?(?=[\[\](){}|/.]|\\[{}|])": "",
    r"\\(?:left|right)\.": "",
    r"\\dots(?![a-z])": r"\\ldots",
    r"\\([td]?frac)\s*(\d)\s*(\d)": r"\\\1{\2}{\3}",
}
"""What docutils does not know, and what is put in its place."""


def mathml(tex: str, block: bool = False) -> str:
    """A formula of LaTeX as MathML; one that cannot be written is an error, by its text."""
    for before, after in SPELLINGS.items():
        tex = re.sub(before, after, tex)
    if block and re.search(r"\\\\|(?<!\\)&", tex) and r"\begin" not in tex:
        tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
    try:
        return str(tex2mathml(tex, as_block=block))
    except Exception as error:
        raise ValueError(f"no MathML for {tex!r}: {error}") from error


def _inline(writer: Any, node: nodes.Element) -> None:
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.Element) -> None:
    number = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
    name = f' id="equation-{nodes.make_id(node["label"])}"' if node.get("label") else ""
    writer.body.append(f'<div class="math" tabindex="0"{name}>{number}{mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
