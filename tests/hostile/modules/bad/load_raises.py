"""The module raises while it is loaded."""

raise ImportError("libstore.so.3: cannot open shared object file")
