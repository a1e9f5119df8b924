"""Steps that are not affine: their derivatives differ from row to row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fisherleak._support.namespaces import Estimator
from fisherleak.errors import UnsupportedModelError
from fisherleak.models.steps.flow import Block, Blocks, Flow, output

__all__ = ["polynomial", "splines"]


def polynomial(transformer: Estimator, flow: Flow) -> Flow:
    """Monomials: the derivative of each by each of its variables, row by row."""
    table = output(transformer, flow)
    powers = np.asarray(transformer.powers_)
    X = np.column_stack([flow.table.numbers(j) for j in range(len(flow.table.names))])
    blocks: Blocks = {}
    for key, block in flow.blocks.items():
        used = np.flatnonzero((powers[:, list(block.columns)] > 0).any(axis=1))
        local = np.zeros((X.shape[0], used.size, len(block.columns)))
        for k, feature in enumerate(used):
            for q, variable in enumerate(block.columns):
                power = powers[feature].copy()
                if power[variable] > 0:
                    lead = power[variable]
                    power[variable] -= 1
                    local[:, k, q] = lead * np.prod(X**power, axis=1)
        blocks[key] = Block(tuple(int(k) for k in used), local @ block.directions, block.encoding)
    return replace(flow, table=table, raw=[None] * len(table.names), blocks=blocks)


def splines(transformer: Estimator, flow: Flow) -> Flow:
    """B-splines of single columns: their derivative, row by row, from the side within at the ends of the knots."""
    if transformer.degree == 0:
        raise UnsupportedModelError(
            "SplineTransformer(degree=0) is not supported: its features are steps, which have no derivative. Use a degree of "
            "1 or more, or cut the column before and encode the levels."
        )
    table = output(transformer, flow)
    count = len(transformer.bsplines_)
    each = len(table.names) // max(count, 1)
    X = np.column_stack([flow.table.numbers(j) for j in range(count)])
    slopes = np.zeros((count, X.shape[0], each))
    bent = False
    for j, spline in enumerate(transformer.bsplines_):
        values = np.column_stack([table.column(j * each + k) for k in range(each)])
        accuracy = 1e-5 if values.dtype == np.float32 else 1e-9
        if not np.allclose(spline(X[:, j])[:, :each], values, rtol=accuracy, atol=accuracy):
            raise UnsupportedModelError(
                f"Column '{flow.table.names[j]}' has values outside the knots of SplineTransformer, which is not supported: "
                "use knots that cover it."
            )
        slopes[j], kinked = _slopes(spline, X[:, j], flow.side, each)
        bent |= kinked
    blocks: Blocks = {}
    for key, block in flow.blocks.items():
        columns = tuple(j * each + k for j in block.columns for k in range(each))
        given = block.local(X.shape[0])
        local = np.concatenate(
            [slopes[j][:, :, None] * given[:, q : q + 1, :] for q, j in enumerate(block.columns)]
            or [np.zeros((X.shape[0], 0, 1))],
            axis=1,
        )
        blocks[key] = Block(columns, local, block.encoding)
    return replace(flow, table=table, raw=[None] * len(table.names), blocks=blocks, bent=flow.bent or bent)


def _slopes(spline: Any, x: Any, side: int, width: int) -> tuple[Any, bool]:
    """Derivatives of a column's splines towards one side, (n, width), and whether a value is on a knot where they jump."""
    first, last = spline.t[spline.k], spline.t[-spline.k - 1]
    # within a hair of a knot is on it: scaling before may have rounded
    hair = 1e-12 * max(abs(first), abs(last), last - first)
    slope = spline.derivative()
    inner = (x > first + hair) & (x < last - hair)
    towards = {s: slope(np.where(inner, x + s * hair, x))[:, :width] for s in (1, -1)}
    jumps = np.abs(towards[1] - towards[-1]).max(initial=0.0) > 1e-6 * np.abs(towards[1]).max(initial=0.0)
    return towards[side], bool(jumps)
