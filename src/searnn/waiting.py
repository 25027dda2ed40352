"""How long idle threads wait for work by spinning: briefly, set before torch loads the library that reads it.

GNU's OpenMP lets them spin for milliseconds. Where another program, or our own compiled passes, wants the cores
meanwhile, every step then waits for its turn: on two busy cores a step of OCR took 2 s instead of 0.15
(docs/performance.md).
"""

import os

if "OMP_WAIT_POLICY" not in os.environ:  # which says it in another way
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")  # some 10 microseconds
