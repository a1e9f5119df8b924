"""Norms of several releases together, whose information adds up; may import what ``engine`` may."""
