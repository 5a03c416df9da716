"""Carries out a plan: ``transaction`` is the run, ``segments`` cuts it into calls, ``segment_run`` makes one.

Beside them stand parallel calls, re-evaluation before a call, verification after it, and its results, events and
records. ``plan`` decides the actions; nothing here reads a manifest or renders output.
"""
