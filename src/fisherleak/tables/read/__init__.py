"""Files of rows and columns as Arrow columns, with their names; may import ``rows`` and ``_support``."""
