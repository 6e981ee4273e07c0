"""The option of `make testbed`."""


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="all quick checks, and all faults")
