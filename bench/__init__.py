"""Benchmarks. `python -m bench [NAME ...]` measures; `docs/internals/benchmarks.md` explains the figures.

A benchmark is a module with a function `measure`, which takes a Scale and returns a Table.
"""
