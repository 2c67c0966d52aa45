"""The tests of the shop's jobs, for `manage.py test` and for pytest."""

from datetime import UTC, datetime, timedelta

from django.db import connection
from django.test import TestCase, TransactionTestCase
from django.utils import timezone

from anarchon import Aborted
from anarchon.contrib.django import scheduler
from anarchon.testing import (
    assert_due_between,
    assert_ran_once,
    make_context,
    manual_time,
    run_job,
)

from .jobs import ship
from .models import Order

NOON = datetime(2026, 10, 10, 12, tzinfo=UTC)


def place_orders(count: int) -> None:
    """Have some orders that are open."""
    Order.objects.bulk_create(Order(slot=slot) for slot in range(1, count + 1))


def open_orders() -> int:
    """Return how many orders are open."""
    return Order.objects.filter(shipped_at=None).count()


class OrderTests(TestCase):
    """What runs on the thread of the test is in its transaction, and rolled back with it."""

    def test_one_order_for_a_slot_together_with_the_success(self) -> None:
        ctx = make_context(slot=NOON)
        run_job(scheduler, "order", context=ctx)
        self.assertEqual(Order.objects.get().slot, ctx.slot)
        self.assertIs(ctx.completed_by, connection)

    def test_nothing_is_ordered_by_who_has_lost_the_run(self) -> None:
        with self.assertRaises(Aborted):
            run_job(scheduler, "order", context=make_context(abort_after=0, abort_reason="lost"))
        self.assertFalse(Order.objects.exists())


class ShipTests(TestCase):
    """A handler that takes a while takes none here, and can be broken off in the middle."""

    def setUp(self) -> None:
        place_orders(4)

    def test_what_is_open_is_shipped(self) -> None:
        run = run_job(scheduler, "ship", NOON)
        self.assertEqual(open_orders(), 0)
        self.assertGreaterEqual(run.duration_ms, 1000)

    def test_the_next_attempt_ships_the_rest(self) -> None:
        with self.assertRaises(Aborted):
            ship(make_context(abort_after="600ms"))
        self.assertEqual(open_orders(), 2)
        ship(make_context(attempt=2))
        self.assertEqual(open_orders(), 0)


class TidyTests(TestCase):
    """A job at a time of day."""

    def test_old_orders_go(self) -> None:
        place_orders(2)
        Order.objects.filter(slot=1).update(shipped_at=timezone.now() - timedelta(days=31))
        run_job(scheduler, "tidy")
        self.assertEqual(Order.objects.get().slot, 2)

    def test_it_is_due_at_four_in_athens_also_when_clocks_change(self) -> None:
        slots = assert_due_between(
            scheduler, "tidy", "2026-10-24T00:00Z", "2026-10-26T00:00Z", times=2
        )
        self.assertEqual([slot.hour for slot in slots], [1, 2])


class TimeTests(TransactionTestCase):
    """In time that the test moves, handlers run on threads of their own."""

    def test_orders_are_shipped_every_ten_seconds(self) -> None:
        with manual_time(scheduler, start=NOON, only="ship") as clock:
            place_orders(3)
            clock.advance("10s")
            self.assertEqual(open_orders(), 3)
            clock.advance("1s")
            self.assertEqual(open_orders(), 0)
            assert_ran_once(scheduler, "ship", NOON + timedelta(seconds=10))
