"""What authors of providers use: base classes, the context of a call, commands. Nothing here calls a provider."""
