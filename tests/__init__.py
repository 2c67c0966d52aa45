"""The tests of anarchon, and the helpers that they share."""
