"""``python -m resource_api`` is the command ``resource-api``."""

from resource_api.faces.cli import main

if __name__ == "__main__":
    main()
