"""The interfaces of a store, the lock, export and import. Plans and providers must not enter here."""
