"""Code of authors: types, providers, components and policies on the module path, and provider instances of a run.

Decisions about resources do not belong here: which methods are called when, and what follows, is decided by the stages.
"""
