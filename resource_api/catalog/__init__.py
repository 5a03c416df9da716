"""Compile a manifest and its types to validated, canonical resources and their graph; pure, without input or output."""
