"""Pretends while it is loaded that somebody pressed Ctrl-C."""

raise KeyboardInterrupt
