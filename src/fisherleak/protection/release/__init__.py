"""Models built anew with noise in their parameters, and nothing else of a fitted one; may import what ``protection`` may."""
