"""Bounds that hold for any record within the bounds, with their proofs in numbers; may import what ``protection`` may."""
