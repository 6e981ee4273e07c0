"""The triage of an interconnect: which of its components are slow, what other traffic costs, and
the verdict `go`, `look` or `no-go`. `bisection` loads it where a run measured a network."""
