"""IRFIL: weights that equalise leakage, and what the whole procedure reveals; may import what ``protection`` may."""
