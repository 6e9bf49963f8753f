"""Long-running loops and metrics."""
