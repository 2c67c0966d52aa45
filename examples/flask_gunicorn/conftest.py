"""What brings the fixtures."""

pytest_plugins = ["anarchon.contrib.pytest"]
