"""Everything that can be wrong with a workspace, found by looking.

`diagnose` goes through all checks and returns a `Health`. Nothing here writes, creates, upgrades or
calls a provider, and one thing that is wrong never hides another.
"""

from sessions_api.health.diagnosing import diagnose
from sessions_api.health.findings import Finding, Health, Severity

__all__ = ["Finding", "Health", "Severity", "diagnose"]
