import sys

from bisection.cli import main

sys.exit(main())
