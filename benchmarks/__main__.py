"""Run every measurement, or those named: ``python -m benchmarks [lab pod_network …]``."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from pathlib import Path


def main() -> None:
    here = Path(__file__).parent
    known = sorted(p.stem for p in here.glob("*.py") if not p.stem.startswith("_"))
    wanted = sys.argv[1:] or known
    if unknown := set(wanted) - set(known):
        sys.exit(f"no such measurement: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    print(f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}")
    for name in wanted:
        print(f"\n== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
