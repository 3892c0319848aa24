"""What the selected labels are good for beyond accuracy: one file a task, pure functions of arrays."""
