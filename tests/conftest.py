"""What every test may use."""

from tests.providers import aimock, provider_process

__all__ = ["aimock", "provider_process"]
