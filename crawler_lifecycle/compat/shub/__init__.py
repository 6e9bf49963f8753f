"""shub-workflow's package, over our own managers. `flow check` names members without a counterpart."""

import sys

from crawler_lifecycle.compat.shub.absent import AbsentModules

sys.meta_path.append(AbsentModules())
