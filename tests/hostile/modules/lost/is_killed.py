"""Is killed as the kernel does it to whom takes too much memory, when it comes to b."""

import os
import signal

from shelf import Shelf


class Provider(Shelf):
    def _put(self, name, should):
        if name == "b":
            os.kill(os.getpid(), signal.SIGKILL)
        super()._put(name, should)
