"""A manifest that converges by itself: bundles, signatures, sources, the clock, and one run after another."""
