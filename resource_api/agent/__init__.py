"""The agent: applies a signed manifest on a schedule."""
