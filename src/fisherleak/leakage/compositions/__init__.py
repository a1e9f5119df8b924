"""Several releases about the same data, as one leakage; may import what ``leakage`` may."""
