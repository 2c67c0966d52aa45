"""A scheduler in each worker."""

from anarchon.contrib.gunicorn import hooks

globals().update(hooks("anarchon.contrib.django:scheduler"))
