"""The version that was released before and this one, side by side: what is promised to whoever upgrades."""
