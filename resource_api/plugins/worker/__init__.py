"""Providers in processes of their own. No other package imports from here but ``plugins.provider_pool``."""
