"""`python recording ...`: what the launcher of a checkout starts, without a PYTHONPATH that the
recorded command would inherit."""

import os
import sys

if __package__:
    from .command import main
else:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[0] = os.path.dirname(os.path.dirname(here))
    from rehearse_sim.recording.command import main

sys.exit(main(sys.argv[1:]))
