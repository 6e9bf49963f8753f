"""Observation of jobs: reads objects from the cluster and changes no object."""
