"""Who and what a release exposes: rows, people, columns, membership; may import what ``auditing`` may."""
