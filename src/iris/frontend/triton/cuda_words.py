"""The words of `triton.language.extra.cuda`, which ask an NVIDIA GPU for what it alone has."""

from __future__ import annotations

from iris.frontend.triton.language import word
from iris.frontend.triton.missing import refusing

__all__ = ["gdc_launch_dependents", "gdc_wait", "globaltimer", "num_threads", "num_warps", "smid"]


@word
def gdc_wait() -> None:
    """Nothing: a launch starts when those before it that it depends on are done."""


@word
def gdc_launch_dependents() -> None:
    """Nothing: the launches that depend on this one wait for its end."""


globaltimer = refusing(
    "extra.cuda.globaltimer", "no program reads a clock; time launches by triton.testing.do_bench"
)
smid = refusing("extra.cuda.smid", "no program knows the core that it runs on")
num_warps = refusing("extra.cuda.num_warps", "pass num_warps as a constexpr")
num_threads = refusing("extra.cuda.num_threads", "pass 32 * num_warps as a constexpr")
