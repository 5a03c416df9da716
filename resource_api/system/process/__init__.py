"""Start programs, read their output, and end them with all their descendants; find the programs that are trusted."""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # features that most runs do not need
    __getattr__ = late_modules(
        __name__, "child", "core_dumps", "interactive", "descriptor_filter", "process", "program_checks"
    )
