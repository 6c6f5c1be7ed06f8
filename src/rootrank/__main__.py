"""`python -m rootrank`: the same as the `rootrank` command."""

import sys

from rootrank.cli import main

if __name__ == "__main__":
    sys.exit(main())
