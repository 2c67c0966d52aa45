"""The app of anarchon as a project may change it, by a class of its own."""

from __future__ import annotations

from anarchon.contrib.django.apps import AnarchonConfig


class OwnConfig(AnarchonConfig):
    """Has another title in the admin."""

    verbose_name = "Jobs of ours"
