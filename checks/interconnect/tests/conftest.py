from fixtures import *  # noqa: F403 - fixtures are known by name
