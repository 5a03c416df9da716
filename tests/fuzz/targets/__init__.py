"""The targets, by what they read; importing this package registers all of them."""

from tests.fuzz.targets import command, content, fleet, machine, manifests, names, state, workers

__all__ = ["command", "content", "fleet", "machine", "manifests", "names", "state", "workers"]
