"""The pytest plugin: fixtures for platforms."""
