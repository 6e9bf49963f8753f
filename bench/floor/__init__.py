"""The floor: the costs for no-op activities in a bare workflow with the measured workflow's shape.

A bare workflow has no interceptor, no heartbeats, and activities without input and result. Its worker has our worker's
options (pollers, slots, cache), our workflow runner without a sandbox and our converter, and both workflows run on the
same server. So a ratio to the floor shows the cost of our own code.
"""
