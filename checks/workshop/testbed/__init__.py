"""A Slurm cluster on this machine, in Linux namespaces: what sites and faults are tested on."""

from workshop.testbed.blueprint import Blueprint, Node, Partition
from workshop.testbed.cluster import Cluster, unavailable
from workshop.testbed.hosts import TestbedError

__all__ = ["Blueprint", "Cluster", "Node", "Partition", "TestbedError", "unavailable"]
