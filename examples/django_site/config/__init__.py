"""How this site is put together."""
