"""YAML, JSON and Python files → one ``Manifest``. Nothing here knows types or providers."""
