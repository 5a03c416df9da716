"""Load authors' code: types, providers, components and policies on the module path; hold a run's provider instances."""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # features that most runs do not need
    __getattr__ = late_modules(__name__, "implementations", "provider_interface")
