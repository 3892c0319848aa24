"""Experiments: strategies against each other on equal terms, and what may be concluded from the runs."""
