"""The GPUs that Iris compiles for, as data."""
