"""A manifest and its types → validated, canonical resources and their graph. No input or output enters: it is pure."""
