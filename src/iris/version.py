"""The version of Iris."""

__version__ = "0.1.0"
