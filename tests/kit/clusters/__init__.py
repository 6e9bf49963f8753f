"""Clusters for tests, real and small, and their Kubernetes objects."""
