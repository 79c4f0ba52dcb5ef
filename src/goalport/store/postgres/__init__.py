"""PostgreSQL for all stores: its address, its server, and connections to it.

Nothing here knows what is stored. asyncpg is imported with the first connection. Above: the store of processes, the
store of documents, and settings, which check an address.
"""

from goalport.store.postgres.server import Connection, Connections, DatabaseServer, PostgresAddress, Row, Tables, driver

__all__ = ["Connection", "Connections", "DatabaseServer", "PostgresAddress", "Row", "Tables", "driver"]
