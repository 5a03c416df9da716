"""Compile a manifest and its types to validated, canonical resources and their graph; pure, without input or output."""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # features that most runs do not need
    __getattr__ = late_modules(__name__, "for_each", "resource_table")
