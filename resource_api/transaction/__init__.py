"""Carries out a plan: ``transaction`` is the run, ``scheduler`` cuts it into segments, ``segment_run`` makes one call.

Beside them: calls in parallel, re-evaluation before a call, verification after it, and its results, events, refreshes
and records. What is to be done is decided by ``plan``; nothing here reads a manifest or renders output.
"""
