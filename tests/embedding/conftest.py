"""A site for each test."""

from __future__ import annotations

import pytest

from tests.embedding.servers_running import Site


@pytest.fixture
def site(tmp_path):
    """Give a test its servers; whatever it leaves is ended."""
    site = Site(tmp_path)
    yield site
    site.clean_up()
