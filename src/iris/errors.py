"""Every exception a user can meet, one class per kind of mistake."""

from __future__ import annotations


class IrisError(Exception):
    """The base of every error that Iris raises on purpose."""


class LayoutError(IrisError):
    """A layout operation was asked for something that is not the function it promises."""
