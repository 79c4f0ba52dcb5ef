"""What every test may use, and how properties are tried."""

from hypothesis import HealthCheck, settings

from tests.providers import aimock, provider_process

__all__ = ["aimock", "provider_process"]

# A busy machine makes examples slow, and the limit that each test has ends a hang: time proves nothing here.
settings.register_profile("goalport", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("goalport")
