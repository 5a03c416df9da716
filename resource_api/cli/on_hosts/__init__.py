"""Commands with `--on`: which hosts are meant, what they are to do, and the run over them."""
