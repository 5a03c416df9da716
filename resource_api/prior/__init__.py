"""Pure: recorded resources matched with the catalog: former names, orphans, recovery, instances, schema upgrades."""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # features that most runs do not need
    __getattr__ = late_modules(__name__, "former_names", "recovery")
