"""Archives and events in files."""
