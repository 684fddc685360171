"""NVIDIA's GPUs, by NVIDIA's own package of bindings."""
