"""How much code there is, and how much of it one has to pass through: run it before and after a change of structure.

    python benchmarks/size.py            # everything
    python benchmarks/size.py --static   # what needs no run, and the longest chain
    python benchmarks/size.py --list     # the lines that are counted as habits

Lines of code are those that hold a token other than a comment or a docstring. Imports are those that run when a module is
loaded (not under ``TYPE_CHECKING``, not inside functions). A way is what a call enters, once everything is loaded: modules of
the package and functions in them.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import sys
import tempfile
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src" / "fisherleak"
MODULES = {
    path: path.relative_to(SOURCE.parent).with_suffix("").as_posix().replace("/", ".") for path in SOURCE.rglob("*.py")
}
NAMES = {name.removesuffix(".__init__"): path for path, name in MODULES.items()}
IGNORED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def docstrings(path: Path) -> set[int]:
    """Lines of texts that stand alone."""
    texts = (node.value for node in ast.walk(tree(path)) if isinstance(node, ast.Expr))
    alone = (text for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str))
    return {line for text in alone for line in range(text.lineno, (text.end_lineno or text.lineno) + 1)}


def code_lines(path: Path) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    lines = {line for token in tokens if token.type not in IGNORED for line in range(token.start[0], token.end[0] + 1)}
    return len(lines - docstrings(path))


# Imports


def _loaded(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test):
            yield from _loaded(node.body)
            yield from _loaded(node.orelse)
        elif isinstance(node, ast.Try):
            yield from _loaded(node.body)


def imports() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, path in NAMES.items():
        own = found.setdefault(name, set())
        for node in _loaded(tree(path).body):
            if isinstance(node, ast.Import):
                own |= {each.name for each in node.names if each.name in NAMES}
            elif node.module and node.module.startswith("fisherleak"):
                inner = {f"{node.module}.{each.name}" for each in node.names}
                own |= (inner & NAMES.keys()) or ({node.module} & NAMES.keys())
        own.discard(name)
    return found


def circles_and_chain(graph: dict[str, set[str]]) -> tuple[list[list[str]], list[str]]:
    """Modules that import one another, and the longest chain of others."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []
    longest: dict[str, list[str]] = {}

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        below = [longest[other] for other in graph[name] if other in longest]
        longest[name] = [name, *max(below, key=len, default=[])]
        if low[name] == order[name]:
            members = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(members) > 1:
                circles.append(members)

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return circles, max(longest.values(), key=len)


# Habits


def own_classes() -> set[str]:
    return {node.name for path in MODULES for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)}


def isinstance_on_own() -> set[tuple[Path, int]]:
    """Lines that ask whether something is of a kind of this package."""
    own = own_classes()
    lines: set[tuple[Path, int]] = set()
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                named = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
                lines |= {(path, node.lineno)} if named & own else set()
    return lines


def private_readers() -> set[tuple[Path, int]]:
    """Lines that read an attribute with an underscore, of something else than self, that another folder defines."""
    defined: dict[str, set[Path]] = {}
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined.setdefault(node.name, set()).add(path.parent)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                defined.setdefault(node.target.id, set()).add(path.parent)
    lines: set[tuple[Path, int]] = set()
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if not (isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")):
                continue
            of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            homes = defined.get(node.attr, set())
            if homes and not of_self and path.parent not in homes:
                lines.add((path, node.lineno))
    return lines


# Ways through


def passed_through(call: Callable[[], object]) -> tuple[int, int]:
    """Modules and functions of the package that a call enters."""
    entered: set[tuple[str, str, int]] = set()

    def look(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)) and code.co_name != "<module>":
            entered.add((code.co_filename, code.co_name, code.co_firstlineno))

    call()  # what loads modules is not part of the way
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    named = {each for each in entered if not each[1].startswith("<")}
    return len({each[0] for each in named}), len(named)


def _silent(main: Callable[[list[str]], int], line: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main(line)


def ways() -> Iterator[tuple[str, tuple[int, int]]]:
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import fisherleak as fl
    from fisherleak.cli import main

    frame, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = make_pipeline(StandardScaler(), Ridge()).fit(frame, y)
    noise = fl.Gaussian(1.0)
    yield "a Pipeline to per_example", passed_through(lambda: fl.measure(model, frame, y, noise).per_example())
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        protected = make_pipeline(StandardScaler(), Ridge())
        yield (
            "fl.protect to a release",
            passed_through(lambda: fl.protect(protected, frame, y, eta=2.0, over="max").release(counted=False)),
        )
        table = place / "table.csv"
        frame.assign(progression=y).to_csv(table, index=False)
        out = ["--out", str(place / "model.skops"), "--overwrite"]
        line = ["release", str(table), "--target", "progression", "--eta", "2", "--l2", "1", "--over", "max"]
        yield "fisherleak release to a file", passed_through(lambda: _silent(main, [*line, *out]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Size and shape of the package.")
    parser.add_argument("--static", action="store_true", help="run nothing of the package")
    parser.add_argument(
        "--list",
        action="store_true",
        help="print the lines that are counted as habits, and nothing else",
    )
    given = parser.parse_args()
    habits = {
        "isinstance on own kinds, lines": isinstance_on_own(),
        "private attributes of other folders, lines": private_readers(),
    }
    if given.list:
        for name, lines in habits.items():
            print(name)
            for path, line in sorted(lines):
                text = path.read_text(encoding="utf-8").splitlines()[line - 1].strip()
                print(f"  {path.relative_to(SOURCE)}:{line}: {text}")
        return
    folders = Counter(entry.parent for path in MODULES for entry in {path, *path.parents} if SOURCE in entry.parents)
    entries = {
        folder: len([e for e in folder.iterdir() if e.suffix == ".py" or (e / "__init__.py").exists()])
        for folder in folders
    }
    circles, chain = circles_and_chain(imports())
    print(f"{'lines of code':45} {sum(map(code_lines, MODULES)):8,}")
    print(f"{'files':45} {len(MODULES):8,}")
    for folder, count in sorted(entries.items(), key=lambda pair: -pair[1])[:8]:
        print(f"{'entries of ' + folder.relative_to(SOURCE.parent).as_posix():45} {count:8}")
    print(f"{'circles':45} {len(circles):8}   {'; '.join(' and '.join(each) for each in circles)}")
    print(f"{'longest chain of imports':45} {len(chain):8}   from {chain[0]}")
    for name, lines in habits.items():
        print(f"{name:45} {len(lines):8}")
    if given.static:
        print("the chain:", *(name.removeprefix("fisherleak.") for name in chain), sep="\n  ")
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, (modules, functions) in ways():
                print(f"{name:45} {modules:8} modules, {functions} functions")


if __name__ == "__main__":
    main()
