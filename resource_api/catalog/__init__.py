"""Pure: a manifest and its types → validated, canonical resources and their graph. No input or output, no clock."""
