"""The no-change cache: a run that finds every resource in sync saves that conclusion, and later runs build on it.

Reading the manifest, compiling it, reading the records and planning cost about five times what reading the system
costs, and nearly always lead to the conclusion of the run before. A run with a valid cached conclusion reads the system
as ever, compares the digest of each row with the one that was saved, and compiles and plans only what is left: the
resources that have changed since, those that depend on them, and those that more than their row decides about.

A conclusion holds keys, names and digests, no values. It is valid as long as the manifest's files, all loaded code, the
types and the stack in the state are as they were (``fingerprints``). What is left is decided by ``conclusion``; saving,
loading and planning the rest is done by ``incremental_plan``. ``state.sqlite.cache`` stores the entries.

Every run works without this package and prints the same, only slower; nothing outside of ``runtime`` imports it. See
docs/cache.md.
"""
