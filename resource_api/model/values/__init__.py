"""Values and texts without any knowledge of resources: references, errors, secrets, assets, expressions."""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # a feature that most runs do not need
    __getattr__ = late_modules(__name__, "archive_rules")
