"""Frozen values that every layer shares; they import nothing but each other."""
