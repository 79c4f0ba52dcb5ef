"""The URL of a PostgreSQL database: whether it is one, and how it is shown without its secrets.

Nothing here connects to anything, and nothing heavy is imported: settings check an address with it. Above: settings,
and the server of a PostgreSQL store.
"""

import re
from typing import Final
from urllib.parse import urlsplit

_SCHEMES: Final = {"postgresql", "postgres", "postgresql+asyncpg"}
_HOSTS: Final = re.compile(r"(?:(?:[\w.%-]*|\[[\da-fA-F:.]+\])(?::\d+)?(?:,|$))*")
_EXPECTED: Final = "postgresql://user:password@host:port/database"


class PostgresAddress:
    """The URL of a database; as text it is without password and options.

    Raises `ValueError` for what is none. The message repeats nothing of it, since that may be a password.
    """

    def __init__(self, url: str) -> None:
        scheme, delimiter, rest = url.partition("://")
        if not delimiter or scheme.lower() not in _SCHEMES:
            raise ValueError(f"should be the URL of a PostgreSQL database, {_EXPECTED}")
        self.url = f"postgresql://{rest}"
        """As the driver reads it."""
        parts = urlsplit(self.url)
        user_info, _, hosts = parts.netloc.rpartition("@")
        user = user_info.partition(":")[0]
        if "@" in parts.path + parts.fragment or parts.fragment or not _HOSTS.fullmatch(hosts):
            raise ValueError(
                f"should be the URL of a PostgreSQL database, {_EXPECTED}; in a user and a password, letters and digits"
                " stand for themselves, and everything else is percent-encoded, as `%40` for `@`"
            )
        self._shown = f"postgresql://{user and f'{user}@'}{hosts}{parts.path}"

    def __str__(self) -> str:
        return self._shown
