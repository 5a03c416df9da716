"""Run a function on an overlay of this machine, whose changes are discarded. Linux only."""
