"""Policies: rules, the columns each is about, whether it passes, what to do next; may import what ``auditing`` may."""
