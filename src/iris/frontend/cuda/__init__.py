"""CUDA C: files that clang parses, as kernels by thread."""
