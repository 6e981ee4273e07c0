"""The suite's own Python: fixtures and judges for ReFrame, layouts, references, verdicts."""

__version__ = "1.0.0"  # as in pyproject.toml and CITATION.cff
