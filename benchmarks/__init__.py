"""How much we cost beside what must be done anyway: ``python -m benchmarks``, or ``make bench``.

Each figure is the ratio of two whole processes that ran one after the other on the same machine, so that what else the
machine does falls out of it. No limits stand here: the tests count what must not grow, a person reads the ratios.
"""
