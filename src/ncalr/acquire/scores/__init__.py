"""Strategies: one rule a file, each a small note on its paper."""
