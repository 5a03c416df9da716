"""What an author of a provider uses: base classes, context, commands, statuses."""
