"""What each column is and which is the target: by what the user said and what cells look like; may import ``tables.read``."""
