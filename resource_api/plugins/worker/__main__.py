"""``python -m resource_api.plugins.worker [DIRECTORY ...]``: serve a Python provider on standard input and output.

``hello`` names the type; the directories are the module path, before the bundled types.
"""

import sys

from resource_api.plugins.worker.server import serve_standard_streams

if __name__ == "__main__":
    serve_standard_streams(sys.argv[1:])
