"""Deciding who holds what: how many simdgroups, and which thread which element of every tile."""
