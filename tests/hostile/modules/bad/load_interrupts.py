"""The module raises ``KeyboardInterrupt`` while it is loaded."""

raise KeyboardInterrupt
