"""The words of verdicts, and the tiers."""

# Checks are selected by tier: quick and nightly are sizes of a run, the others are purposes.
TIERS = ("quick", "nightly", "upgrade", "interconnect")
PASS, FAIL = "pass", "FAIL"
NOT_MEASURED, NOT_APPLICABLE, KNOWN = "not measured", "not applicable", "known failure"
FOLLOWS = "did not pass"  # how the cause of a case ends that another one's failure stopped
# Exit codes: 2 is for usage (argparse's own).
ALL_PASSED, SOME_FAILED, NOT_ALL_MEASURED = 0, 1, 3
# In a launch with more disturbed samples than this, a metric outside its bounds says nothing.
DISTURBED = 0.3
REGRESSED, IMPROVED, UNCHANGED = "regressed", "improved", "unchanged"
INCONCLUSIVE, NOT_MEASURED, MISSING, NEW = "inconclusive", "not measured", "missing", "new"
VERDICTS = (REGRESSED, MISSING, NOT_MEASURED, IMPROVED, INCONCLUSIVE, NEW, UNCHANGED)
COUNTED = ("B", "messages")  # units of what is the same in every run: any change is one
CONTEXT = ("share", "groups")  # of what explains a time, and is not better or worse by itself
ABOVE, AT, BELOW, UNCLEAR = "above", "at", "below", "unclear"
# What a verdict is about: the machine, where sessions were sampled; two sessions, where only jobs
# within them were.
MACHINE, SESSIONS = "machine", "these sessions"
