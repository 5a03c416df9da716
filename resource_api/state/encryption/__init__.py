"""Encryption of state: the keys that users hold, data keys and the cipher."""
