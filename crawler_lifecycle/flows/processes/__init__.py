"""Work beside the flows' workflows: starts for flows unknown to Temporal, and metrics."""
