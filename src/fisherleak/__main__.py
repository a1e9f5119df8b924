"""``python -m fisherleak`` is the command line."""

import sys

from fisherleak.cli import main

if __name__ == "__main__":
    sys.exit(main())
