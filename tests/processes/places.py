"""Where the processes of a test keep their runs: a file, or a server, named by a URL."""

from __future__ import annotations


def backend_at(url: str, **options):
    """Return a backend for a URL, or for the path of a SQLite file; it isn't open."""
    import anarchon

    scheme, is_url, rest = url.partition("://")
    if not is_url:
        return anarchon.SqliteBackend(url, **options)
    if scheme in ("postgres", "postgresql"):
        return anarchon.PostgresBackend(url, **options)
    if scheme == "cluster":
        from redis import RedisCluster

        return anarchon.RedisBackend(RedisCluster.from_url(f"redis://{rest}"), **options)
    return anarchon.RedisBackend(url, **options)
