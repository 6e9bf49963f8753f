"""Tests against a real Kubernetes control plane, and the bed it stands on."""
