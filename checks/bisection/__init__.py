"""The suite's own Python: fixtures and judges for ReFrame, layouts, references, verdicts."""
