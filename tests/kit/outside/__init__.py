"""What is outside of the service: stores, receivers, networks, disks, other programs."""
