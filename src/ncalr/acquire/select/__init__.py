"""Selectors: how k items are chosen among scored ones. One idea a file."""
