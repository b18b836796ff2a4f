from tests.support.postgres import database, empty_database, server, template

__all__ = ["database", "empty_database", "server", "template"]
