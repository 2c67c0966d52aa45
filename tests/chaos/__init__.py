"""Fleets of real processes under random faults, and a checker that explains every slot.

    python -m tests.chaos --store redis --minutes 10

Handlers write what they do to a ledger outside of the store, the driver writes its faults there,
and at the end every slot of every job has to be explained by that ledger and the history.
"""
