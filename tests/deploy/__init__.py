"""What an installation is made of: the image, the manifests, the compose file."""
