"""Service that runs web crawls on Kubernetes and never loses track of a crawl."""

__version__ = "0.1.0"
