"""The command ``resource-api``: parse, call ``runtime``, render, map errors to exit codes."""

from typing import TYPE_CHECKING

if not TYPE_CHECKING:
    #: Features that most commands do not need.
    _FEATURES = (
        *("completion", "console", "editor", "hosted_display", "hosted_run", "progress", "reporting"),
        *("source_lines", "tracing"),
    )

    def __getattr__(name: str) -> object:
        """Return a stand-in for a feature's module: imported at its first use, so that other commands start faster."""
        # Also for "main", which Python then imports as usual: --version stays fast, without the module below.
        if name not in _FEATURES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from resource_api.model.values.start_up import late_modules

        return late_modules(__name__, *_FEATURES)(name)
