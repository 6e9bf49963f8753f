"""Observation of jobs: reads objects of the cluster and changes none."""
