"""The loop: one round as a function, runs that can be killed and resumed, the journal, stopping rules."""
