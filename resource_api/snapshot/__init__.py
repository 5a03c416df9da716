"""Observe: one batched ``get`` per type, every row that is used checked; configure providers."""
