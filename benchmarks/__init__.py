"""The cost of this program compared with the necessary work: ``python -m benchmarks``, or ``make bench``.

Each figure is the ratio of two whole processes that ran alternately on the same machine, so that other
load affects both. No benchmark fails by its result: the tests count what must not grow, and people read the ratios.
"""
