"""What several modules of this folder need."""

from __future__ import annotations

import pytest

from tests.stores.postgres_clock import prepare
from tests.stores.postgres_places import database_on


@pytest.fixture(scope="module")
def database(shared_server):
    """A PostgreSQL with a clock that is moved by hand, for all tests of a module."""
    with database_on(shared_server, "postgres-18") as database:
        prepare(database)
        yield database
