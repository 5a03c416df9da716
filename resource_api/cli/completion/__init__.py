"""Completion in bash, zsh and fish: what can be completed, and how it is brought to each shell and back."""
