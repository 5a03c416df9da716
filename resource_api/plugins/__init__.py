"""Load authors' code: types, providers, components and policies on the module path; hold a run's provider instances.

The stages decide about resources: which methods are called, when, and with which consequences.
"""
