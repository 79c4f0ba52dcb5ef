"""What every test may use."""

from tests.providers import aimock as aimock, provider_process as provider_process
