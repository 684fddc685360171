"""`triton.runtime.driver`: the target that packages ask for, which is Metal's."""

from importlib import import_module
from typing import Any, NamedTuple

from iris.compiler.triton_kernel import resources


class Target(NamedTuple):
    """What Triton says of a GPU."""

    backend: str = "metal"
    arch: str = "apple"
    warp_size: int = 32


class utils:
    """What a driver says of a GPU."""

    get_device_properties = staticmethod(resources)


class active:
    """The driver in use."""

    utils = utils

    @staticmethod
    def get_current_target() -> Target:
        """The GPU."""
        return Target()

    @staticmethod
    def get_active_torch_device() -> Any:
        """The device on which PyTorch keeps what kernels are to work on."""
        torch = import_module("torch")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
