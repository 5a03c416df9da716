"""What is: one batched ``get`` for each type, each row checked."""
