"""Run a function on an overlay of this machine: everything can be changed there, and all of it is discarded. Linux."""
