"""`triton.testing`: timing, and tables of times."""

from iris.compiler.benchmark import do_bench
from iris.compiler.perf_report import Benchmark, perf_report

__all__ = ["Benchmark", "do_bench", "perf_report"]
