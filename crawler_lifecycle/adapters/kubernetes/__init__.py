"""Jobs of a real Kubernetes cluster."""
