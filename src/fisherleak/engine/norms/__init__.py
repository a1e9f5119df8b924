"""Largest singular values of parts of a Jacobian: where rows share an eigenbasis, and where they do not.

May import what ``engine`` may.
"""
