"""Largest eigenvalues of many small or structured matrices at once; may import what ``engine`` may."""
