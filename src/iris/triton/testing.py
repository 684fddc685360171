"""`triton.testing`: timing, and tables of times."""

from iris.compiler.perf_report import Benchmark, perf_report
from iris.compiler.triton_bench import do_bench

__all__ = ["Benchmark", "do_bench", "perf_report"]
