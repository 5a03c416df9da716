"""Pure: catalog, prior state and observations → steps and operations. No input or output, no clock, no log."""
