"""From a table to a fitted model, leakage and utility; may import ``tables``, ``protection`` and the folders above them."""
