"""Values and texts without any knowledge of resources: references, errors, secrets, assets, expressions."""
