"""Hypothesis profiles: a stable default, and a long search with VIEWLET_HYPOTHESIS=full."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
"""Random queries are large by nature; the time limits of the suite guard against the rest."""

settings.register_profile("default", max_examples=150, deadline=None, derandomize=True, suppress_health_check=QUIET)
settings.register_profile("full", max_examples=2000, deadline=None, suppress_health_check=QUIET, print_blob=True)
settings.load_profile(os.environ.get("VIEWLET_HYPOTHESIS", "default"))
