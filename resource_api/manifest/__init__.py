"""YAML, JSON and Python files → one ``Manifest``: structure and positions. Types and providers must not enter."""
