"""Real servers that tests start themselves, and a proxy that breaks the way to them.

Every server listens on loopback only, on a port of its own, keeps its files in a temporary
folder, and is ended by its process id. `reaper.py` ends what is left when the tests are killed.
"""
