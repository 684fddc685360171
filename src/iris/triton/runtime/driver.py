"""`triton.runtime.driver`: the target that packages ask for, which is Metal's."""

from typing import NamedTuple


class Target(NamedTuple):
    """What Triton says of a GPU."""

    backend: str = "metal"
    arch: str = "apple"
    warp_size: int = 32


class active:
    """The driver in use."""

    @staticmethod
    def get_current_target() -> Target:
        """The GPU."""
        return Target()
