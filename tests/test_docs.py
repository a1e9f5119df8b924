"""Pages say and show what they should: code runs as it stands, terms are those of the glossary, sentences are short, words are found."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
pytest.importorskip("pandas")


def snippets(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)


def executed(page: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for code in snippets(page):
        exec(code, names)  # noqa: S102 - our own pages
    return names


ELSEWHERE = {"add-a-data-set", "add-a-loss", "add-a-noise", "add-an-attacker", "networks", "scale"}
"""Pages whose code the tests of their topic run: tests/test_extending*.py, tests/nn/test_nn.py, tests/rows/test_dask_arrays.py."""
LONG = {"README.md", "docs/audits.md", "docs/mechanisms.md", "docs/using.md"}
WITH_CODE = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", *DOCS.glob("*.md"))
    if path.stem not in ELSEWHERE and "```python\n" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.long] * (page in LONG), id=Path(page).stem) for page in WITH_CODE]
)
def test_code_runs_as_it_stands_on_its_page(
    page: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    quick_audits: None,
) -> None:
    pytest.importorskip("pyarrow")
    from fisherleak.training.model_kinds import KINDS

    monkeypatch.chdir(tmp_path)
    before = list(KINDS)
    try:
        names = executed(page)
    finally:
        KINDS[:] = before
    check = CHECKS.get(Path(page).stem)
    assert check is None or check(names)
    capsys.readouterr()


CHECKS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "add-a-kind-of-model": lambda names: names["result"].trained.kind.words == "pseudo-Huber regression",
    "clients": lambda names: abs(names["rounds"].per_example().max() - 1.0) < 1e-6,
    "get-started": lambda names: "revealed" in names["found"].verdict,
    "interfaces": lambda names: names["scores"].with_noise(names["quiet"]).per_example().max() <= 0.5,
    "mechanisms": lambda names: names["leak"].with_noise(names["drawn"]).per_example().max() <= 0.5,
    "using": lambda names: names["leak"].per_example(["age"]).max() > 0,
}
"""What the names of a page must then hold."""


# Words


PHRASES = (
    "rightly",
    "of 100 times",
    "is guessing",
    "guessing is",
    "in the row in the middle",
    "that nobody chose",
    "better than a constant",
    "no finite eta",
    "noise was calibrated end to end",
    "leans equally",
    "lean equally",
    "stays in the house",
    "leaves the house",
    "for the house",
    "are not kept",
    "Not yet:",
    "whoever could be",
    "told best",
    "of what is unknown about",
    "That scale follows from the rows",
    "determines its data as well",
    "stay in the house",
    "for the row in the middle",
    "of the rows' own",
    "told to be there",
    "whoever ran",
    "levels of categories",
    "reweighted until it",
    "Right guesses",
    "held against",
    "times in 100",
    "tells it right",
    "tells about the row that",
    "tells without limit",
    "tells that value",
    "what the choice tells",
    "what the covariance tells",
    "tells of them",
    "spent on whom",
    "that somebody chose",
    "ignores the columns",
    "in its unit too",
    "Who asked for it",
    "What this page tells",
    "made anew without the row",
    "knows or guesses it draws",
    "yes or no counts as a number",
    "no unbiased attacker does better than",
    "the column varies by",
    "Numbers count in units",
    "flatters the model",
    "decimal ones or stand",
    "reveals that value at any noise",
    "what an outsider starts from about",
    "spread started from",
    "about any number",
    "those on what is revealed do",
    "The same as η",
    "is no advice",
    "rooms above",
    "other room",
)
"""What people read said so before; the design page of words has what it says now."""
EXEMPT = {
    "src/fisherleak/releasing/files/earlier_files.py": "files that were written before are compared with their own words",
}
"""Folders and files that may keep a phrase, and why."""
READ = ("*.md", "*.j2", "*.js", "*.py")


def texts() -> Iterator[tuple[str, str]]:
    """What people may read: pages, templates and the sources, without the changelog and what others wrote."""
    for folder in (ROOT / "src", DOCS):
        for pattern in READ:
            for path in sorted(folder.rglob(pattern)):
                name = path.relative_to(ROOT).as_posix()
                if "_build" not in path.parts and "echarts" not in path.parts and not name.startswith(tuple(EXEMPT)):
                    yield name, path.read_text(encoding="utf-8")
    yield "README.md", (ROOT / "README.md").read_text(encoding="utf-8")


def test_phrases_that_went_do_not_come_back() -> None:
    went = re.compile(r"\b(" + "|".join(map(re.escape, PHRASES)) + ")")
    found = [
        f"{name}: {phrase}"
        for name, text in texts()
        for phrase in went.findall(" ".join(text.replace('"', " ").split()))  # sentences go on in the next literal
    ]
    assert found == []


def sentences(page: str) -> list[str]:
    """Of a page: without code, tables, pictures and directives; a colon or semicolon goes on."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"!\[.*?\]\(.*?\)|\]\([^)]*\)|\{\w+\}|[`*\[\]]", "", text)
    blocks = re.split(r"\n\s*\n|\n(?=[-|#])", text)
    plain = [" ".join(block.split()) for block in blocks if not block.lstrip().startswith("|")]
    return [each for block in plain for each in re.split(r"(?<=[.!?:])\s+", block)]


@pytest.mark.parametrize("page", ["README.md", "docs/get-started.md"])
def test_sentences_for_newcomers_are_short(page: str) -> None:
    assert len(sentences(page)) > 10
    assert [each for each in sentences(page) if len(each.split()) > 25] == []


@pytest.mark.parametrize("words", ["hospital", "ethics", "epsilon", "repeated measurements", "missing values"])
def test_search_finds(words: str) -> None:
    """The search of the pages goes by words: each is in the text of one at least, and a title or a heading leads to most."""
    assert [page.name for page in DOCS.glob("*.md") if words in page.read_text(encoding="utf-8").lower()]


def test_every_page_begins_with_what_it_is_for() -> None:
    for page in DOCS.glob("*.md"):
        if page.stem not in {"index", "api", "versions", "cite"} and not page.stem.startswith("add-"):
            first = page.read_text(encoding="utf-8").split("\n\n", 2)[1]
            assert re.match(r"(After this page|This page)", first) or "After this page" in first, page.name


def test_pages_are_no_longer_than_they_need_be() -> None:
    words = sum(len(re.findall(r"\S*\w\S*", page.read_text(encoding="utf-8"))) for page in DOCS.glob("*.md"))
    assert words < 22_000


# What the build makes


@pytest.fixture
def docs_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))


@pytest.mark.usefixtures("docs_on_path")
def test_formulas_need_no_network() -> None:
    pytest.importorskip("docutils.utils.math.latex2mathml")
    from mathml import mathml

    pages = [page for page in DOCS.rglob("*.md") if "_build" not in page.parts]
    blocks = 0
    for page in pages:
        text = page.read_text(encoding="utf-8")
        written = re.findall(r"```\{math\}\n(.*?)```", text, re.DOTALL)
        text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
        for tex in (*written, *re.findall(r"\$\$(.+?)\$\$", text, re.DOTALL)):
            assert mathml(tex, block=True).startswith("<math")
            blocks += 1
        for tex in re.findall(r"\$([^$]+?)\$", re.sub(r"\$\$.+?\$\$", "", text, flags=re.DOTALL)):
            assert mathml(tex).startswith("<math")
    assert blocks > 50
    with pytest.raises(ValueError, match="no MathML"):
        mathml(r"\nowhere{x}")
    assert "mathjax" not in (DOCS / "conf.py").read_text(encoding="utf-8")


@pytest.mark.usefixtures("docs_on_path")
def test_signatures_show_no_private_argument() -> None:
    from signatures import public

    import fisherleak

    shown = [getattr(fisherleak, name) for name in fisherleak.__all__]
    found = [inspect.signature(each) for each in shown if hasattr(each, "__dataclass_fields__")]
    bare = [[given.replace(annotation=given.empty) for given in each.parameters.values()] for each in found]
    written = [str(inspect.Signature(each)) for each in bare]  # the pages show no annotations
    private = re.compile(r"[(,] ?_\w")
    assert any(private.search(each) for each in written)
    assert [each for each in map(public, written) if private.search(each)] == []
    assert public("(a, _b=(), c=(1, 2), _d=None)") == "(a, c=(1, 2))"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.usefixtures("docs_on_path")
def test_pictures_of_the_terminal(tmp_path: Path) -> None:
    from terminal import COMMANDS, picture, printed

    assert printed("fisherleak verify", tmp_path) == ("", 2)
    text, status = printed("fisherleak verify --help", tmp_path)
    assert status == 0
    assert "Usage: fisherleak verify" in text
    assert max(map(len, text.split("\n"))) <= 80
    assert "$ a &lt;b\n&amp;\n$ echo $?\n1<" in picture("a <b", "&", 1)
    shown = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    assert all(f":file: _build/terminal/{name}.html" in shown for name in COMMANDS)
    assert {"audit", "release", "verify", "failed-gate"} <= set(COMMANDS)
