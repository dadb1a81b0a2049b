"""Everything that can be known before a run: `sluice check` prints what this package finds.

A check changes and starts nothing. What cannot be looked at is a finding, never an exception.
"""

from orchestration.checks.everything import run_checks
from orchestration.checks.finding import Finding, Severity

__all__ = ["Finding", "Severity", "run_checks"]
