"""Every step dies, and whatever is behind it misbehaves: what is left at the end is what should have been."""
