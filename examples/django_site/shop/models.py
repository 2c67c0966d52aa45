"""What the shop keeps."""

from django.db import models


class Order(models.Model):
    """An order, which comes in and is shipped."""

    slot = models.BigIntegerField(unique=True)
    placed_at = models.DateTimeField(auto_now_add=True)
    shipped_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"order {self.pk}"
