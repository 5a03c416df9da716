"""The ``StateStore`` protocol, the lock, export and import. Plans and providers must not enter here."""
