"""The commands for many machines, a module each."""
