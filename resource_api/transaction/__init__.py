"""Carries out a plan: ``transaction`` is the run, ``segment_run`` carries out its segments.

Beside them stand parallel calls, re-evaluation before a call, verification after it, and its results, events and
records. ``plan`` decides the actions; nothing here reads a manifest or renders output.
"""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # features that most runs do not need
    __getattr__ = late_modules(__name__, "segment_run", "parallel", "side_effects")
