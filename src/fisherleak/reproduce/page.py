"""RESULTS.md: ours beside the paper's, item by item."""

from __future__ import annotations

from typing import Any

from fisherleak._support.namespaces import Json
from fisherleak.reproduce.comparison import Item
from fisherleak.reproduce.items import ITEMS

__all__ = ["results_page"]

HEAD = """# The paper, reproduced

Hannun, Guo and van der Maaten, *Measuring Data Leakage in Machine-Learning Models with Fisher Information*, UAI 2021: its
tables, figures and statements, computed with `fisherleak reproduce`, beside what the paper says: its numbers, or its statements
in short. Where it has a picture only, notes give what its recipe is expected to show; such numbers are not the paper's own.

No model has an intercept. Preprocessing (scaling, PCA, encoding) is fitted on the training data and taken as public; eta is for
noise of scale sigma = 1 unless said otherwise. CIFAR-10 and IWPC figures depend, in the second or third digit, on the copy of
the files and on the random split.
"""


def results_page(results: dict[str, Json]) -> str:
    """The page for the items that are finished."""
    parts = [HEAD]
    for beyond, title in ((False, ""), (True, "# Beyond the paper\n")):
        sections = [_section(ITEMS[name], found) for name, found in results.items() if ITEMS[name].beyond == beyond]
        if sections and title:
            parts.append(title)
        parts += sections
    seconds = sum(found["seconds"] for found in results.values())
    parts.append(
        f"Computed in {seconds:.0f} s with fisherleak {next(iter(results.values()))['version']}.\n" if results else ""
    )
    return "\n".join(parts)


def _section(item: Item, found: Json) -> str:
    lines = [f"## {item.title}", ""]
    if item.remark:
        lines += [item.remark, ""]
    lines += ["| | ours | the paper | |", "| --- | --- | --- | --- |"]
    for line in item.compare(found["numbers"]):
        cells = (line.what, line.ours, line.paper, line.note)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    if item.draw is not None:
        lines += ["", f"![{item.title}]({item.name}.png)"]
    settings = "; ".join(f"{name}: {_plain(value)}" for name, value in item.settings.items())
    lines += ["", f"Settings: {settings}. {found['seconds']:.1f} s.", ""]
    return "\n".join(lines)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(inner) for inner in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
