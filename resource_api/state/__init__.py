"""The interfaces of a store, the lock, export and import."""
