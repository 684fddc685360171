"""Lower each kernel of some packages of Triton kernels, and say what became of it.

`make zoo` installs the packages in a folder, and runs this over them.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter

from iris.compiler.autotune import Chooser
from iris.compiler.triton_kernel import TritonKernel
from iris.errors import IrisError
from zoo import kernels, stand_in
from zoo.signatures import arguments_of


def outcome(kernel: TritonKernel | Chooser, trace_only: bool) -> str:
    """Why a kernel does not lower; empty if it does."""
    arguments = arguments_of(kernel)
    try:
        compilation = kernel.base.lower(grid=(1,), **arguments)
        if not trace_only:
            _ = compilation.msl
    except IrisError as error:
        return f"{type(error).__name__}: {error.message}"
    except Exception as error:
        return f"! {type(error).__name__}: {error}".partition("\n")[0]
    return ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--at", required=True, help="the folder where the packages are")
    parser.add_argument("--trace", action="store_true", help="trace only")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    sys.path.insert(0, given.at)
    stand_in.install()
    import iris.triton

    iris.triton.install()
    for package in given.packages:
        mains = kernels.launched(kernels.kernels_of(package))
        reasons = Counter()
        for path, kernel in mains.items():
            if not re.search(given.only, path):
                continue
            start = time.process_time()
            why = outcome(kernel, given.trace)
            spent = time.process_time() - start
            print(f"{'ok' if not why else 'NO'} {spent:6.2f}s {path}  {why}", flush=True)
            reasons[re.sub(r"[\d%<>x]+|\b[a-z_A-Z0-9]+\b(?= (starts|becomes|is))", "_", why)] += 1
        lowered = reasons.pop("", 0)
        print(f"== {package}: {lowered} of {sum(reasons.values()) + lowered}")
        for reason, count in reasons.most_common():
            print(f"{count:4}  {reason[:300]}")


main()
