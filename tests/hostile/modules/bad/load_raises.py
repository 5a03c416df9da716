"""The module raises while it is loaded."""

raise ImportError("libshelf.so.3: cannot open shared object file")
