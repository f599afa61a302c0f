"""`python -m bridges.cli`."""

import sys

from .main import main

sys.exit(main())
