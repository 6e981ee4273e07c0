"""What runs inside ReFrame. Only `check` and `launch` need its runtime when they are imported."""
