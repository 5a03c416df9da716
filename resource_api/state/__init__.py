"""The ``StateStore`` protocol, the lock, export and import. Nothing here knows plans or providers."""
