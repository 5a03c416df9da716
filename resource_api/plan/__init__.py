"""Pure: catalog, prior state and observations → steps and operations. No input or output, no clock, no log."""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # features that most runs do not need
    __getattr__ = late_modules(__name__, "targets")
