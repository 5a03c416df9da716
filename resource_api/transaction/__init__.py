"""Carries out a plan: segments, scheduling, ``set``, verification, results, recording."""
