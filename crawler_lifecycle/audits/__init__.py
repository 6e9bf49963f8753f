"""The audit: compares runs, workflows and jobs from outside, and repairs."""
