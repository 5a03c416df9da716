"""The no-change cache: a run that finds every resource in sync saves that conclusion, and later runs build on it.

Reading, compiling and planning the manifest cost about five times as much as reading the system. A run with a valid
cached conclusion reads the system as ever, compares the digest of each row with the saved one, and compiles and plans
only the resources for which more than their row decides. A conclusion holds keys, names and digests, no values.

Every run works without this package and prints the same, only slower; nothing outside of ``runtime`` imports it. See
docs/internals/cache.md.
"""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # features that most runs do not need
    __getattr__ = late_modules(__name__, "incremental_plan")
