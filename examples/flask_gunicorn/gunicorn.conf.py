"""What gunicorn is told: each worker runs the app's scheduler."""

from anarchon.contrib.gunicorn import hooks

globals().update(hooks("app:jobs.scheduler"))
