"""The jobs of the shop; anarchon finds them here."""

from datetime import timedelta

from django.db import connection, transaction
from django.utils import timezone

from anarchon import Context, cron, every

from .models import Order


@every("order", "1s", description="Somebody orders something.")
def order(ctx: Context) -> None:
    """Place one order for each slot; the order and the success are committed together."""
    with transaction.atomic():
        Order.objects.create(slot=ctx.slot)
        ctx.complete(connection)


@every("ship", "10s", description="What was ordered is shipped, one after another.")
def ship(ctx: Context) -> None:
    """Ship what is open, slowly; whoever takes over goes on with what is left."""
    for one in Order.objects.filter(shipped_at=None).order_by("pk")[:20]:
        ctx.signal.sleep("250ms")
        one.shipped_at = timezone.now()
        one.save()


@cron("tidy", "0 4 * * *", description="Old orders are forgotten.")
def tidy() -> None:
    """Forget orders that were shipped a month ago."""
    Order.objects.filter(shipped_at__lt=timezone.now() - timedelta(days=30)).delete()
