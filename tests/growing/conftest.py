"""Makes the helper modules of these tests, of schedulers and of faults importable."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "qoop"), str(HERE.parent / "tpcds")]
