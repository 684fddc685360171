"""A software Metal device for Linux: Metal's classes, and kernels run on the CPU."""
