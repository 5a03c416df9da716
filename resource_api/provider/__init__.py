"""The tools of provider authors: base classes, the context of a call, commands. Nothing here calls a provider."""
