"""The stores, and the interface between them and the scheduler."""
