"""The table of orders."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Makes it."""

    initial = True
    dependencies: ClassVar = []
    operations: ClassVar = [
        migrations.CreateModel(
            name="Order",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("slot", models.BigIntegerField(unique=True)),
                ("placed_at", models.DateTimeField(auto_now_add=True)),
                ("shipped_at", models.DateTimeField(null=True)),
            ],
        ),
    ]
