"""Code of others: types, providers, components and policies found on the module path, and their instances in a run."""
