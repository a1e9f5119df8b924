"""One file per command: parse, call, print; may import every room, and the rest of ``cli``."""
