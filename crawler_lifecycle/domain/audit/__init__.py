"""Rules of the audit: rows, descriptions and looks in, findings and permitted repairs out."""
