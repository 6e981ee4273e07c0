"""Stella, Intel's 10 Gigabit Ethernet cluster (2010), simulated: see checks/workshop/smpi."""

from pathlib import Path

from reframe.utility import import_module_from_file

machine = import_module_from_file(str(Path(__file__).with_name("common_simulated.py")))

site_configuration = machine.simulated(__file__, nodes=8)
