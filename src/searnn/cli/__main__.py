"""`python -m searnn.cli`: the same as the command `searnn`."""

import sys

from searnn.cli import main

sys.exit(main())
