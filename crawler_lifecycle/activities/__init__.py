"""What may a workflow have done? Thin classes over ports: one model in, one out, safe to run twice."""
