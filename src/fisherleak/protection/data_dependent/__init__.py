"""Noise whose covariance the rows decide, with what that tells counted; may import what ``protection`` may."""
