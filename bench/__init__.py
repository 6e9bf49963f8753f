"""How fast is it? `python -m bench [NAME ...]` measures; `docs/benchmarks.md` tells what the figures mean.

Each benchmark is one module with a function `measure`, which takes a Scale and gives a Table.
"""
