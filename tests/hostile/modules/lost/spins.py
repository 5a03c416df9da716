"""Never ends, whatever it is told, when it comes to b."""

import signal

from shelf import Shelf


class Provider(Shelf):
    def _put(self, name, should):
        if name == "b":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                pass
        super()._put(name, should)
