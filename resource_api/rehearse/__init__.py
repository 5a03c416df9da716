"""Rehearse a manifest: apply it for real on an overlay of this machine, report its effects, discard everything."""
