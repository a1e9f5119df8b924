"""Compute items, keep what is finished, and write the page."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fisherleak._support.atomic import written_whole
from fisherleak._support.checks import nearest
from fisherleak._support.namespaces import Json
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.reproduce import NAMES, attribute_attacks, image_models, warfarin, whole_images
from fisherleak.reproduce.workspace import Item, Workspace

UNDATED: dict[str, dict[str, Any]] = {"png": {"Software": None}, "pdf": {"CreationDate": None}}
"""Metadata without which the same numbers give the same file."""
FORMAT = 1
"""Of the JSON files: results of another are computed again."""


# Every item of the reproduction, in the order of the page.

_MADE = (*image_models.ITEMS, *warfarin.ITEMS, *attribute_attacks.ITEMS, *whole_images.ITEMS)
ITEMS: dict[str, Item] = {item.name: item for item in sorted(_MADE, key=lambda item: NAMES.index(item.name))}
"""By name."""


def reproduce(
    items: Sequence[str] | str = ("all",),
    data_home: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] = "reproduced",
    again: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Compute tables and figures of the paper, and set them beside the published ones.

    Parameters
    ----------
    items : str or sequence of str
        Names in ``ITEMS``, or "all".
    data_home : path, optional
        A folder with the four data sets, as for the loaders of ``fisherleak.datasets``.
    out : path
        Gets, for each item, NAME.json (numbers), NAME.png and NAME.pdf (where there is a figure), and RESULTS.md. Items that
        are finished there, with the same settings, are not computed again.
    again : bool
        Compute them again all the same.
    say : callable
        Is told what is done, line by line.

    Returns
    -------
    Path
        Of RESULTS.md.
    """
    chosen = _chosen([items] if isinstance(items, str) else list(items or ()))
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be made: {error.strerror}. Choose another `out`.") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataError(f"The folder {folder} cannot be written to. Choose another `out`.")
    work = Workspace(data_home)
    data = _fingerprint(data_home)
    for count, item in enumerate(chosen, start=1):
        ahead = f"{count} of {len(chosen)}: {item.title}"
        if not again and _finished(item, folder, data):
            say(f"{ahead} (finished before)")
            continue
        say(ahead)
        _make(item, folder, work, data)
    results = {
        name: json.loads(_json(item, folder).read_text())
        for name, item in ITEMS.items()
        if _finished(item, folder, data)
    }
    with written_whole(folder, ["RESULTS.md"]) as place:
        (place / "RESULTS.md").write_text(results_page(results), encoding="utf-8")
    return folder / "RESULTS.md"


def _chosen(items: Sequence[str]) -> list[Item]:
    for name in items:
        if name != "all" and name not in ITEMS:
            raise InvalidInputError(f"There is no item '{name}'. {nearest(name, ['all', *ITEMS])}")
    return list(ITEMS.values()) if not items or "all" in items else [ITEMS[name] for name in dict.fromkeys(items)]


def _json(item: Item, folder: Path) -> Path:
    return folder / f"{item.name}.json"


def _pictures(item: Item, folder: Path) -> list[Path]:
    return [] if item.draw is None else [folder / f"{item.name}.{kind}" for kind in ("png", "pdf")]


def _key(item: Item, data: str) -> Json:
    from fisherleak import __version__

    key = {"format": FORMAT, "version": __version__, "data": data, "settings": item.settings}
    plain: dict[str, Any] = json.loads(json.dumps(key))
    return plain


def _fingerprint(data_home: str | os.PathLike[str] | None) -> str:
    """Names and sizes of the data files, in short; downloads have checksums of their own."""
    folder = data_home or os.environ.get("FISHERLEAK_DATA")
    if not folder:
        return "downloaded"
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    listed = [(str(path.relative_to(folder)), path.stat().st_size) for path in files]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:16]


def _finished(item: Item, folder: Path, data: str) -> bool:
    """Whether all files of an item are there, made with the same settings; the JSON file comes last."""
    paths = (_json(item, folder), *_pictures(item, folder))
    try:
        if not all(path.stat().st_size > 0 for path in paths):
            return False
        known = json.loads(paths[0].read_text(encoding="utf-8"))
        key = _key(item, data)
        item.compare(known["numbers"])  # numbers of another make of the item lack something
        if data == "downloaded":  # downloads are held to checksums, wherever they lie
            key["data"] = known["data"]
        return {name: known[name] for name in key} == key and bool(known["seconds"] >= 0)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False


def _make(item: Item, folder: Path, work: Workspace, data: str) -> None:
    start = time.perf_counter()
    numbers = item.compute(work)
    paths = _pictures(item, folder)
    with written_whole(folder, [*(path.name for path in paths), _json(item, folder).name]) as place:
        if item.draw is not None:
            with _quiet_figures():
                figure = item.draw(numbers, work)
                for path in paths:
                    kind = path.suffix[1:]
                    figure.savefig(place / path.name, format=kind, dpi=110, metadata=UNDATED[kind])
        record = {
            **_key(item, data),
            "item": item.name,
            "seconds": round(time.perf_counter() - start, 2),
            "numbers": numbers,
        }
        (place / _json(item, folder).name).write_text(json.dumps(record, indent=1), encoding="utf-8")


@contextmanager
def _quiet_figures() -> Iterator[None]:
    """Figures without a screen, closed afterwards, with the user's backend restored."""
    try:
        import matplotlib
        import matplotlib.pyplot as plt
    except ImportError:
        raise InvalidInputError("Figures need matplotlib: pip install 'fisherleak[plot]'.") from None
    before = matplotlib.get_backend()
    plt.switch_backend("Agg")
    try:
        yield
    finally:
        plt.close("all")
        plt.switch_backend(before)


# RESULTS.md: ours beside the paper's, item by item.

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
