"""`python -m iris.triton script.py` runs a script to whom `import triton` gives Iris."""

import runpy
import sys
from pathlib import Path

from iris.triton import install


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m iris.triton SCRIPT [ARGUMENTS]")
    install(instead=True)
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
