"""Carries out a plan: ``transaction`` is the run, ``segments`` cuts it into calls, ``segment_run`` makes one.

Beside them: calls in parallel, re-evaluation before a call, verification after it, and its results, events, refreshes
and records. What is to be done is decided by ``plan``; nothing here reads a manifest or renders output.
"""
