"""Whether someone was in the data: how far releases with and without rows are apart; may import what ``leakage`` may."""
