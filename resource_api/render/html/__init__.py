"""Plans, runs and relationships as HTML pages that need no network; nothing else writes HTML."""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # features that most runs do not need
    __getattr__ = late_modules(__name__, "overview", "pages")
