"""Read YAML, JSON and Python files as one ``Manifest``: structure and positions, without types and providers."""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # features that most runs do not need
    __getattr__ = late_modules(
        __name__,
        "conditions",
        "input_files",
        "input_values",
        "json_reader",
        "metaparameters",
        "python_manifest",
        "python_positions",
        "syntax_hints",
        "yaml_reader",
    )
