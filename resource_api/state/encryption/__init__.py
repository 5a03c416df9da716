"""Keys and ciphers of encrypted stacks."""
