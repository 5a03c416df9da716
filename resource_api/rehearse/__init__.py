"""Rehearse a manifest: apply it for real on an overlay of this machine, report what it has done, discard everything."""
