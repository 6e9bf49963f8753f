"""The composition root: settings in, ready parts out."""
