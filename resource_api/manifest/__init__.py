"""Read YAML, JSON and Python files as one ``Manifest``: structure and positions, without types and providers."""
