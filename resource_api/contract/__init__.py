"""What authors and stores promise the runtime: providers, the registry of one run, state."""
