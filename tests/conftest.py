"""Let no verdict depend on how busy the machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "unhurried",
    settings(),  # of a developer, or of CI
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("unhurried")
