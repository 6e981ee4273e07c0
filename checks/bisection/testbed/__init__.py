"""A Slurm cluster on this machine, in Linux namespaces: what sites and faults are tested on."""

from bisection.testbed.blueprint import Blueprint, Node, Partition
from bisection.testbed.cluster import Cluster, unavailable
from bisection.testbed.hosts import TestbedError

__all__ = ["Blueprint", "Cluster", "Node", "Partition", "TestbedError", "unavailable"]
