"""From columns to rows and features of a linear model; may import ``tables.read`` and ``tables.decide``."""
