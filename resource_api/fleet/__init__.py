"""Many hosts: a job goes to each, its events come back; the run happens on the host, and its state stays there."""

from typing import TYPE_CHECKING

from resource_api.model.values.start_up import late_modules

if not TYPE_CHECKING:  # features that most runs do not need
    __getattr__ = late_modules(__name__, "asyncssh_transport")
