"""Releases of this repository: a wheel and a source archive, and a package for Debian."""
