"""The floor: the costs for no-op activities in a bare workflow with the measured workflow's shape.

A bare workflow is a first program with Temporal's SDK: default converter, default sandbox, no interceptor, no
heartbeats, activities without input and result. Its worker has our worker's options (pollers, slots, cache), and both
workflows run on the same server. So a ratio to the floor shows the cost of our own code.
"""
