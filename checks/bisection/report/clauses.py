"""Words of reasons."""

from bisection.core.reasons import clause as clause
