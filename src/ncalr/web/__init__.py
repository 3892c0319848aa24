"""People in the loop: the labelling page, its server, its store, and the worker that trains beside it."""
