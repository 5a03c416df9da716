"""The commands, one module each: the command NAME is the function ``NAME`` in the module ``NAME``."""
