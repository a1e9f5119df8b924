"""One file per command: parse, call, print; may import every folder, and the rest of ``cli``."""
