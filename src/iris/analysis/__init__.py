"""Analyses: facts about IR.  They change nothing."""
