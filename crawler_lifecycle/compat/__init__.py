"""Other systems' module paths over our own API.

`sed 's/from chancy/from crawler_lifecycle.compat.chancy/'` ports a file. A package mirrors another system's modules. An
import of a name without a mirror fails.
"""
