"""Makes the helper modules of the soak, of TPC-DS and of the planner's tests importable."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tpcds"), str(HERE.parent / "planner")]
