"""Classes that run inside ReFrame. Only `check` and `launch` need its runtime on import."""
