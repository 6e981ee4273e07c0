"""The suite's own Python: fixtures and judges for ReFrame, layouts, references, verdicts."""

# Checks are selected by tier: quick and nightly are sizes of a run, the others are purposes.
TIERS = ("quick", "nightly", "upgrade", "interconnect")
