"""Helpers for the servers and frameworks that a scheduler lives in; none is imported by default."""
