import sys
from pathlib import Path

here = Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent)]
sys.path.append(str(here.parent / "targets"))
