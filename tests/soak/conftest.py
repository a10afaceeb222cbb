"""Makes the helper modules of the soak, of the attack, of TPC-DS and of the planner's tests importable."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("attack", "tpcds", "planner"))]
