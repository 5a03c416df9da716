"""Read and change files, directories, links, archives and downloads, safe against other users and crashes.

The desired state of a resource is decided by types and providers, not here. Linux only.
"""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # features that most runs do not need
    __getattr__ = late_modules(__name__, "archive_members", "asset_contents", "code_trust", "download", "files")
