"""The module raises while it is loaded."""

raise OSError("libstore.so.3: cannot open shared object file")
