"""How many of the 100 most exposed examples are the same for linear and logistic regression (a statement in the text)."""

from __future__ import annotations

import numpy as np

from fisherleak.reproduce.workspace import (
    IMAGES,
    KINDS,
    TITLES,
    Comparison,
    Item,
    Numbers,
    Workspace,
    settings_of_images,
)

COUNT = 100
PAPER = {"mnist": 24, "cifar10": 34}


def compute(work: Workspace) -> Numbers:
    found = {}
    for name in IMAGES:
        tops = [set(np.argsort(work.eta(name, kind))[-COUNT:].tolist()) for kind in KINDS]
        found[name] = len(tops[0] & tops[1])
    return found


def compare(numbers: Numbers) -> list[Comparison]:
    lines = []
    for name in IMAGES:
        differs = numbers[name] != PAPER[name]
        note = "The copy of the files decides: one whose pixels went through JPEG gives 35." if differs else ""
        lines.append(Comparison(f"shared by both models, {TITLES[name]}", str(numbers[name]), str(PAPER[name]), note))
    return lines


ITEM = Item("overlap", "The 100 most exposed examples of both models", settings_of_images(), compute, compare)
