"""The command ``resource-api``: parse, call ``runtime``, render, map errors to exit codes."""

from typing import TYPE_CHECKING

if not TYPE_CHECKING:  # features that most commands do not need

    def __getattr__(name: str) -> object:
        from resource_api.model.values.start_up import late_modules  # which --version does not need

        features = (
            "completion",
            "console",
            "editor",
            "hosted_overview",
            "hosted_run",
            "progress",
            "reporting",
            "source_lines",
            "tracing",
        )
        return late_modules(__name__, *features)(name)
