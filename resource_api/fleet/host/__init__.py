"""The part of a run that is executed on a host; nothing here runs on the controller."""
