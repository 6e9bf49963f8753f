"""Rules of the audit: from rows, workflow descriptions and looks to findings and permitted repairs."""
