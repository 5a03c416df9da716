"""The line from a manifest to a report; a stage imports what lies to its left, never to its right."""
