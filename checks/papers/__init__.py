"""What the papers found, as launches and expressions: of the check scaling.py and the workshop."""
